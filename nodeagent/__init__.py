"""What plugin authors import: the hook marker and the version."""

import pluggy

__version__ = "0.1.0"

hookimpl = pluggy.HookimplMarker("nodeagent")

__all__ = ["__version__", "hookimpl"]

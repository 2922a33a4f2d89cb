"""Hook implementation marker for plugins, and the version of the agent."""

import pluggy

__version__ = "0.1.0"

hookimpl = pluggy.HookimplMarker("nodeagent")

__all__ = ["__version__", "hookimpl"]

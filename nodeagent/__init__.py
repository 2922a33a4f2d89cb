"""Hook implementation marker for plugins, and the version of the agent."""

import pluggy

__version__ = "0.1.0"
API_VERSION = "1.0"
"""Version of hooks and contracts; a change that existing plugins cannot be used with increases the first number."""

hookimpl = pluggy.HookimplMarker("nodeagent")

__all__ = ["API_VERSION", "__version__", "hookimpl"]

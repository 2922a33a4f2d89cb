"""Exit codes of the agent and its commands."""

from enum import IntEnum


class ExitCode(IntEnum):
    """Documented in ``docs/troubleshooting.md``."""

    OK = 0
    PROBLEMS = 1
    """Problems were found, or the agent exited because of an internal error."""
    CONFIGURATION = 2
    """The configuration, a flag or a plugin is invalid; nothing was started."""
    UNREACHABLE = 3
    """The runtime, the API server or the running agent cannot be reached."""

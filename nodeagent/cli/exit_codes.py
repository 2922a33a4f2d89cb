"""What the programs' exit codes mean."""

from enum import IntEnum


class ExitCode(IntEnum):
    """Documented in ``docs/troubleshooting.md``."""

    OK = 0
    PROBLEMS = 1
    """Problems were found, or the agent ended on an error of its own."""
    CONFIGURATION = 2
    """The configuration, a flag or a plugin is wrong; nothing was started."""
    UNREACHABLE = 3
    """The runtime, the API server or the running agent cannot be reached."""

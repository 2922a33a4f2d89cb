"""``python -m nodeagent``."""

import sys


def main() -> int:
    """Run the command line; the exit code is the program's."""
    from nodeagent.cli.main import main as run

    return run(sys.argv[1:])


if __name__ == "__main__":
    sys.exit(main())

"""Entry point of ``python -m nodeagent`` and of the ``nodeagent`` executable."""

import sys


def main() -> int:
    """Run the command line of the process and return its exit code."""
    from nodeagent.cli.main import main as run

    return run(sys.argv[1:])


if __name__ == "__main__":
    sys.exit(main())

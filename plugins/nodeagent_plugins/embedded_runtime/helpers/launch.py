"""Start of the helper processes."""

from __future__ import annotations

import sys
from pathlib import Path

PLUGINS = str(Path(__file__).resolve().parents[3])
# Without site packages the start takes half the time.
BOOT = "import sys; sys.path.insert(0, sys.argv.pop(1)); from {0}.{1} import main; main()"


def command(target: str, *arguments: str) -> list[str]:
    """Return the command line of a helper, a module of this package."""
    return [sys.executable, "-I", "-S", "-c", BOOT.format(__package__, target), PLUGINS, *arguments]

"""``python -m tests.soak``: run a node under load for hours, and report the growth of its resources."""

from __future__ import annotations

import argparse
import asyncio
import random
import shutil
import sys
import tempfile
from pathlib import Path

from tests.soak.node import started_node
from tests.soak.report import page, text_table
from tests.soak.run import soak

BUILD = Path(__file__).parents[2] / "build"


def main() -> int:
    options = _options()
    directory = Path(tempfile.mkdtemp(prefix="soak-"))
    with started_node(directory) as node:
        run = soak(node, options.hours * 3600, seed=options.seed, pause_seconds=options.pause)
        result = asyncio.run(run)
    options.report.parent.mkdir(parents=True, exist_ok=True)
    options.report.write_text(page(result))
    print(text_table(result))
    print(f"report: {options.report}")
    if result.failed:
        print(f"logs: {directory}", file=sys.stderr)
        return 1
    shutil.rmtree(directory, ignore_errors=True)
    return 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.soak", description="Run a node under load, as root.")
    parser.add_argument("--hours", type=float, default=6.0, help="length of the run (default: 6)")
    parser.add_argument("--seed", type=int, default=random.randrange(2**32), help="seed of the load (default: random)")
    parser.add_argument("--pause", type=float, default=3.0, help="mean seconds between starts of pods (default: 3)")
    parser.add_argument("--report", type=Path, default=BUILD / "soak.html", help="file (default: build/soak.html)")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())

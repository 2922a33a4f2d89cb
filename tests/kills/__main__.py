"""``python -m tests.kills``: a run on a private node."""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from pathlib import Path

from tests.integration.containerd import Containerd
from tests.kills.parties import Parties
from tests.kills.runner import Runner


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.kills", description="Kill processes of a node at random points, as root."
    )
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--points", type=int, default=100, help="number of kills (default: 100)")
    parser.add_argument("--workers", type=int, default=6, help="number of claims in use at a time (default: 6)")
    parser.add_argument("--report", type=Path, metavar="FILE", help="write the report to FILE")
    arguments = parser.parse_args()
    directory = Path(tempfile.mkdtemp(prefix="kills-"))
    with Containerd() as runtime, Parties(directory, runtime).running() as parties:
        runner = Runner(parties, arguments.seed, workers=arguments.workers, log=True)
        report = runner.run(arguments.points)
    print(report.text())
    if arguments.report is not None:
        arguments.report.write_text(f"{report.text()}\n")
    if report.violations:
        print(f"logs: {directory}", file=sys.stderr)
        return 1
    shutil.rmtree(directory, ignore_errors=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""``python -m tests.device_kills``: a run on a private node."""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from pathlib import Path

from tests.device_kills.runner import Runner
from tests.device_kills.sources import ClaimDriver, DevicePlugin
from tests.integration.containerd import LATER, Containerd


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.device_kills", description="Kill processes while devices are allocated, as root."
    )
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--allocations", type=int, default=200, help="number of allocations (default: 200)")
    parser.add_argument("--claims", action="store_true", help="claims of a DRA driver instead of a device plugin")
    arguments = parser.parse_args()
    directory = Path(tempfile.mkdtemp(prefix="dk-"))
    source, executables = (ClaimDriver, LATER) if arguments.claims else (DevicePlugin, None)
    with (
        Containerd(executables=executables) as runtime,
        Runner(directory, runtime, arguments.seed, source).running() as runner,
    ):
        report = runner.run(arguments.allocations)
    print(report.text())
    if report.violations:
        print(f"logs: {directory}", file=sys.stderr)
        return 1
    shutil.rmtree(directory, ignore_errors=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())

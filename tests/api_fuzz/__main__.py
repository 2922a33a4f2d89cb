"""``python -m tests.api_fuzz --requests N --seed S``: random requests to a server with everything enabled.

Each request is determined by the seed and its number, and is generated from the server's discovery and OpenAPI
documents: objects by schema and changed examples, in JSON, YAML and protobuf, patches of all types, watches, selectors,
subresources and custom resources with CEL rules. No request may cause an internal error, a hang, or an error in the log
of the server. The server runs in a network namespace, where the addresses in objects are unreachable; requires root.
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from nodeagent.base.memory_trim import TRIM_SECONDS
from tests.api_fuzz.requests import FuzzRequest
from tests.api_fuzz.runner import run

_SETTLE_SECONDS = 2 * TRIM_SECONDS + 60.0
"""Time until unused results of caches are dropped and free memory is returned."""


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.api_fuzz", description=(__doc__ or "").partition(":")[2])
    parser.add_argument("--requests", type=int, default=10_000, metavar="N", help="number of requests (default: 10000)")
    parser.add_argument("--seed", type=int, default=1, metavar="S", help="seed of the requests (default: 1)")
    parser.add_argument("--first", type=int, default=0, metavar="N", help="number of the first request (default: 0)")
    parser.add_argument("--batch", type=int, default=20_000, metavar="N", help="requests until objects are deleted")
    parser.add_argument("--connections", type=int, default=16, metavar="N", help="parallel requests (default: 16)")
    parser.add_argument(
        "--settle",
        type=float,
        metavar="SECONDS",
        help="time without requests before memory is measured; 0: only that at the start (default: 660 if there are "
        "several batches, so that history is compacted and free memory is returned, else 0)",
    )
    parser.add_argument(
        "--warm-up",
        type=int,
        default=1,
        metavar="N",
        help="batches before the initial memory of a server in use is measured (default: 1)",
    )
    parser.add_argument("--failures", type=Path, metavar="FILE", help="append failed requests to FILE, one per line")
    parser.add_argument("--replay", type=Path, metavar="FILE", help="first send the requests in FILE")
    parser.add_argument("--dir", type=Path, metavar="DIR", help="directory of the server, kept (default: temporary)")
    parser.add_argument("--isolated", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if not options.isolated:
        # Objects name any addresses, and the server connects to those of nodes: in this namespace none is reachable.
        command = ["unshare", "--net", sys.executable, "-m", "tests.api_fuzz", *sys.argv[1:], "--isolated"]
        os.execvp(command[0], command)
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    replay = options.replay.read_text().splitlines() if options.replay else []
    started, signals = time.monotonic(), []
    signal.signal(signal.SIGTERM, lambda received, _: signals.append(received))  # End after the batch, with a report.

    def failed(number: int, request: FuzzRequest, reason: str) -> None:
        print(f"request {number} failed: {reason.encode('utf-8', 'backslashreplace').decode()[:300]}", flush=True)
        if options.failures is not None:
            with options.failures.open("a") as output:
                output.write(f"{request.to_json()}\n")

    with tempfile.TemporaryDirectory(prefix="api-fuzz-") as temporary:
        report = run(
            options.dir or Path(temporary),
            options.seed,
            range(options.first, options.first + options.requests),
            batch=options.batch,
            connections=options.connections,
            settle_seconds=_settle_seconds(options),
            warm_up_batches=options.warm_up,
            stopped=lambda: bool(signals),
            replay=[FuzzRequest.from_json(line) for line in replay],
            progress=lambda text: print(f"{time.monotonic() - started:.0f} s: {text}", flush=True),
            failed=failed,
        )
    print(report.text().encode("utf-8", "backslashreplace").decode())
    return int(bool(report.failed or report.tracebacks or report.not_deleted))


def _settle_seconds(options: argparse.Namespace) -> float:
    several = options.requests > options.batch
    return options.settle if options.settle is not None else (_SETTLE_SECONDS if several else 0.0)


if __name__ == "__main__":
    sys.exit(main())

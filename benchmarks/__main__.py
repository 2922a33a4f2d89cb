"""``python -m benchmarks [NAME …]``: measure, and say how it compares."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from benchmarks import (
    api_pods,
    api_server,
    eviction,
    machine,
    one_pod,
    record,
    runtime,
    start_up,
    static_pods,
    stats,
    streams,
    watchers,
)
from benchmarks.figures import REFERENCE, Benchmark, table
from benchmarks.node import Programs

BENCHMARKS: dict[str, Benchmark] = {
    "runtime": runtime,
    "static_pods": static_pods,
    "api_pods": api_pods,
    "one_pod": one_pod,
    "start_up": start_up,
    "eviction": eviction,
    "stats": stats,
    "streams": streams,
    "api_server": api_server,
    "watchers": watchers,
}
RECORDED_RUNS = 3
COMPARED = frozenset(["static_pods", "api_pods", "one_pod", "api_server", "watchers"])
"""What the reference programs can be measured by as well."""


def main() -> int:
    options = _options()
    runs = options.runs or (RECORDED_RUNS if options.record else 1)
    facts = machine.facts()
    print(", ".join(f"{name} {value}" for name, value in facts.items()))
    print(f"reference: {REFERENCE}")
    results, failed = [], False
    for name in options.names or BENCHMARKS:
        benchmark, load = BENCHMARKS[name], machine.load()
        print(f"\n{name} ({runs} runs, load before {load:.2f})", flush=True)
        found: list[dict[str, float]] = []
        reference: list[dict[str, float]] = []
        for _ in range(runs):
            try:
                found.append(benchmark.run())
                if name in COMPARED and (options.reference_agent or options.reference_server):
                    reference.append(_run_reference(benchmark, options))
            except (RuntimeError, AssertionError) as error:
                failed = True
                print(f"  failed: {error}", file=sys.stderr)
        if found:
            _print_table(table(benchmark.FIGURES, found, reference))
            results.append(record.document(name, found, reference, facts, load))
    if options.json:
        options.json.write_text(json.dumps(results, indent=1) + "\n")
    if options.record:
        record.keep(results, BENCHMARKS)
        print(f"\nkept in {record.PAGE.relative_to(Path.cwd())}")
    return 1 if failed else 0


def _run_reference(benchmark: Benchmark, options: argparse.Namespace) -> dict[str, float]:
    Programs.agent, Programs.server = options.reference_agent, options.reference_server
    try:
        return benchmark.run()
    finally:
        Programs.agent = Programs.server = None


def _options() -> argparse.Namespace:
    known = "\n".join(f"  {name:12} {(module.__doc__ or '').splitlines()[0]}" for name, module in BENCHMARKS.items())
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks",
        description="Measure the speed and size of the agent and the API server on this machine, as root.",
        epilog=f"benchmarks:\n{known}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("names", metavar="NAME", nargs="*", help="what to measure (default: everything)")
    parser.add_argument("--runs", type=int, metavar="N", help="how often; medians are shown (default: 1, recorded: 3)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the results there")
    parser.add_argument(
        "--reference-agent",
        type=Path,
        metavar="FILE",
        help="program of the reference agent, to measure in turns with ours",
    )
    parser.add_argument("--reference-server", type=Path, metavar="FILE", help="its API server; needs etcd")
    parser.add_argument("--record", action="store_true", help="keep the results in benchmarks/RESULTS.md")
    options = parser.parse_args()
    if unknown := [name for name in options.names if name not in BENCHMARKS]:
        parser.error(f"no such benchmark: {', '.join(unknown)}; there are {', '.join(BENCHMARKS)}")
    return options


def _print_table(rows: Sequence[Sequence[str]]) -> None:
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    for row in rows:
        cells = [
            cell.ljust(width) if column < 2 else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        print("  " + "  ".join(cells).rstrip())


if __name__ == "__main__":
    sys.exit(main())

"""``python -m benchmarks [NAME …]``: run benchmarks and print the results."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from benchmarks import (
    api_pods,
    api_server,
    claims,
    custom_resources,
    density,
    devices,
    embedded_runtime,
    eviction,
    fleet,
    heartbeats,
    host,
    latency,
    mounted_objects,
    one_pod,
    plugin_calls,
    plugin_costs,
    plugin_failures,
    record,
    runtime,
    start_up,
    static_pods,
    stats,
    streams,
    watchers,
)
from benchmarks.figures import UPSTREAM, Benchmark, table
from benchmarks.node import Executables

BENCHMARKS: dict[str, Benchmark] = {
    "runtime": runtime,
    "embedded_runtime": embedded_runtime,
    "static_pods": static_pods,
    "api_pods": api_pods,
    "mounted_objects": mounted_objects,
    "one_pod": one_pod,
    "latency": latency,
    "claims": claims,
    "density": density,
    "devices": devices,
    "start_up": start_up,
    "eviction": eviction,
    "stats": stats,
    "streams": streams,
    "plugin_costs": plugin_costs,
    "plugin_calls": plugin_calls,
    "plugin_failures": plugin_failures,
    "api_server": api_server,
    "watchers": watchers,
    "custom_resources": custom_resources,
    "fleet": fleet,
    "heartbeats": heartbeats,
}
RECORDED_RUNS = 3
COMPARED = frozenset(
    [
        "static_pods",
        "api_pods",
        "mounted_objects",
        "one_pod",
        "density",
        "api_server",
        "watchers",
        "custom_resources",
        "heartbeats",
    ]
)
"""Benchmarks that can also measure the kubelet and kube-apiserver."""


def main() -> int:
    options = _options()
    # Installations have compiled modules; without them, compilation is most of the start-up time.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    runs = options.runs or (RECORDED_RUNS if options.record else 1)
    facts = host.facts()
    print(", ".join(f"{name} {value}" for name, value in facts.items()))
    print(f"upstream: {UPSTREAM}")
    documents, failed = [], False
    for name in options.names or BENCHMARKS:
        benchmark, load = BENCHMARKS[name], host.load()
        print(f"\n{name} ({runs} {'run' if runs == 1 else 'runs'}, load before {load:.2f})", flush=True)
        results: list[dict[str, float]] = []
        upstream: list[dict[str, float]] = []
        for _ in range(runs):
            try:
                results.append(benchmark.run())
                if name in COMPARED and (options.kubelet or options.kube_apiserver):
                    upstream.append(_run_upstream(benchmark, options))
            except (RuntimeError, AssertionError) as error:
                failed = True
                print(f"  failed: {error}", file=sys.stderr)
        if results:
            _print_table(table(benchmark.FIGURES, results, upstream))
            documents.append(record.document(name, results, upstream, facts, load))
    if options.json:
        options.json.write_text(json.dumps(documents, indent=1) + "\n")
    if options.record:
        record.store(documents, BENCHMARKS)
        print(f"\nrecorded in {record.PAGE.relative_to(Path.cwd())}")
    return 1 if failed else 0


def _run_upstream(benchmark: Benchmark, options: argparse.Namespace) -> dict[str, float]:
    Executables.kubelet, Executables.kube_apiserver = options.kubelet, options.kube_apiserver
    try:
        return benchmark.run()
    finally:
        Executables.kubelet = Executables.kube_apiserver = None


def _options() -> argparse.Namespace:
    names = "\n".join(f"  {name:12} {(module.__doc__ or '').splitlines()[0]}" for name, module in BENCHMARKS.items())
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks",
        description="Measure the performance of the agent and the API server on this host, as root.",
        epilog=f"benchmarks:\n{names}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("names", metavar="NAME", nargs="*", help="benchmarks to run (default: all)")
    parser.add_argument("--runs", type=int, metavar="N", help="number of runs (default: 1, with --record: 3)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the results to FILE")
    parser.add_argument(
        "--kubelet", type=Path, metavar="FILE", help="executable of the kubelet, measured in alternation with the agent"
    )
    parser.add_argument(
        "--kube-apiserver", type=Path, metavar="FILE", help="executable of kube-apiserver; requires etcd"
    )
    parser.add_argument("--record", action="store_true", help="store the results in benchmarks/RESULTS.md")
    options = parser.parse_args()
    if unknown := [name for name in options.names if name not in BENCHMARKS]:
        parser.error(f"unknown benchmark: {', '.join(unknown)}; choose from {', '.join(BENCHMARKS)}")
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

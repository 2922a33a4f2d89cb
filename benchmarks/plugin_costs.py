"""Cost of loading each plugin in a running agent with an API server: CPU time and memory, as ``nodeagent status``."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib.metadata import entry_points

from benchmarks.figures import Figure
from benchmarks.node import started_node

MIN_MS, MIN_KIB = 1.0, 64.0
"""Plugins that need less of both are only part of the total."""

NAMES = sorted(entry.name for entry in entry_points(group="nodeagent"))
FIGURES = (
    Figure("total_ms", "all plugins: CPU time", "ms"),
    Figure("total_kib", "all plugins: memory", "KiB"),
    *(
        figure
        for name in NAMES
        for figure in (
            Figure(f"{name}_ms", f"`{name}`: CPU time", "ms"),
            Figure(f"{name}_kib", f"`{name}`: memory", "KiB"),
        )
    ),
)


def run() -> dict[str, float]:
    with started_node(with_api=True) as node:
        command = [sys.executable, "-m", "nodeagent", "status", "--root-dir", str(node.agent.root), "-o", "json"]
        # The exit code is 1 while the agent reports a problem.
        done = subprocess.run(command, check=False, capture_output=True, text=True)
        if done.returncode > 1:
            raise RuntimeError(f"nodeagent status failed: {done.stderr}")
        lines = json.loads(done.stdout)["pluginCosts"]
    result = {"total_ms": 0.0, "total_kib": 0.0}
    for line in lines:
        cpu_ms, memory_kib = 1000 * line["cpuSeconds"], line["memoryBytes"] / 1024
        result["total_ms"] += cpu_ms
        result["total_kib"] += memory_kib
        if cpu_ms >= MIN_MS or memory_kib >= MIN_KIB:
            result |= {f"{line['name']}_ms": cpu_ms, f"{line['name']}_kib": memory_kib}
    return result

"""``python -m benchmarks.cheap_figures``: figures that do not depend on the speed of the host, for CI.

CI compares them with ``history/cheap_figures.json`` and fails if one has increased by more than 10 %. ``--update``
replaces that file, for a change that needs more.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import grpc

from nodeagent.base.criproto import api_pb2 as cri
from nodeagent.testing.cri import RuntimeHandle, started_runtime
from tests.integration.programs import NodeAgent, simple_pod, unmount_below, wait_until

FILE = Path(__file__).parent / "history" / "cheap_figures.json"
UPDATE = "python -m benchmarks.cheap_figures --update"
MAX_INCREASE = 0.1
PODS = 20
PERIODIC = frozenset(["Version", "Status", "ListContainers", "ListPodSandbox", "ListImages", "ImageFsInfo"])
"""Calls whose number depends on the time, not on the number of pods."""

_LOADED = """
import json, sys
import nodeagent.agent, nodeagent.cli.run
from nodeagent.pluginmanager import PluginManager
PluginManager().load_entry_points()
status = open("/proc/self/status").read().splitlines()
rss = next(int(line.split()[1]) for line in status if line.startswith("VmRSS")) / 1024
print(json.dumps({"modules": len(sys.modules), "rss_mib": round(rss, 1)}))
"""


def measure() -> dict[str, float]:
    """Return modules and memory (MiB) after the import, and calls of the runtime per started pod."""
    return _imported() | {"calls_per_pod": _calls_per_pod()}


def increases(measured: dict[str, float], recorded: dict[str, float]) -> list[str]:
    """Return a line for each figure that has increased too much."""
    return [
        f"{name}: {measured[name]:g}, recorded {value:g} (at most {100 * MAX_INCREASE:g} % more); "
        f"if the change is worth it: {UPDATE}"
        for name, value in recorded.items()
        if measured[name] > value * (1 + MAX_INCREASE)
    ]


def recorded() -> dict[str, float]:
    """Return the committed figures."""
    found: dict[str, float] = json.loads(FILE.read_text())
    return found


def _imported() -> dict[str, float]:
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
    for _ in range(2):  # The first process may compile modules, which needs memory.
        done = subprocess.run(
            [sys.executable, "-c", _LOADED], check=True, capture_output=True, text=True, env=environment
        )
    found: dict[str, float] = json.loads(done.stdout)
    return found


def _calls_per_pod() -> float:
    with (
        tempfile.TemporaryDirectory(prefix="figures-", ignore_cleanup_errors=True) as name,
        contextlib.ExitStack() as s,
    ):
        directory = Path(name)
        s.callback(unmount_below, directory)
        runtime = s.enter_context(started_runtime(directory))
        agent = NodeAgent(directory, runtime.endpoint)
        s.callback(agent.stop)
        agent.start()
        for number in range(PODS):
            agent.write_pod(simple_pod(f"figures-{number}"))
        wait_until(lambda: calls(runtime).get("StartContainer") == PODS, "all containers are started", 120)
        wait_until(lambda: calls(runtime).get("ContainerStatus", 0) >= PODS, "their status is known", 120)
        return sum(count for call, count in calls(runtime).items() if call not in PERIODIC) / PODS


def calls(runtime: RuntimeHandle) -> dict[str, int]:
    """Return the number of calls that the fake runtime has received, by method."""
    with grpc.insecure_channel(runtime.endpoint) as channel:
        status = channel.unary_unary(
            "/runtime.v1.RuntimeService/Status", cri.StatusRequest.SerializeToString, cri.StatusResponse.FromString
        )
        found: dict[str, int] = json.loads(status(cri.StatusRequest(verbose=True), timeout=30).info["calls"])
        return found


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.cheap_figures", description="Compare cheap figures.")
    parser.add_argument("--update", action="store_true", help=f"replace {FILE.name}")
    options, measured = parser.parse_args(), measure()
    print(json.dumps(measured))
    if options.update:
        FILE.parent.mkdir(exist_ok=True)
        FILE.write_text(json.dumps(measured, indent=1) + "\n")
        return 0
    problems = increases(measured, recorded())
    print("\n".join(problems) or "no increase")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())

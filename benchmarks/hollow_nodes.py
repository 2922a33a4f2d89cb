"""``python -m benchmarks.hollow_nodes``: hollow nodes, agents on fake runtimes, many in one process.

Pod workers, PLEG, node status, leases, volumes, events and the API client are those of the agent. Runtime, images,
cgroups and statistics are fakes, so that a node needs no privileges and the nodes share one process.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import functools
import importlib.metadata
import json
import logging
import signal
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import uvloop
import yaml

from nodeagent import hookimpl
from nodeagent.agent import Agent
from nodeagent.base.aio import SystemClock
from nodeagent.config.load import load_configuration
from nodeagent.node.root_directory import prepare_root
from nodeagent.plugin_containment import Containment, StallPolicy
from nodeagent.plugin_settings import PluginConfig
from nodeagent.pluginmanager import GROUP, PluginManager
from nodeagent.testing import FakeCgroups, FakeImages, FakePuller, FakeRuntime, FakeStats

PLUGINS = {
    "devices",
    "event_recorder",
    "node_stats",
    "object_reader",
    "pod_admission",
    "pod_source_api",
    "pod_sync",
    "probes",
    "volumes",
}
"""Bundled plugins of a hollow node; the others need a host."""
START_SECONDS = 0.02
REPORT_SECONDS = 2.0
NO_STALLS = Containment(stall=StallPolicy(report_seconds=3600.0, interrupt_seconds=0.0))
KEPT_CALLS = 16


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.hollow_nodes", description="Run hollow nodes.")
    parser.add_argument("--server", required=True, metavar="URL", help="API server")
    parser.add_argument("--ca-file", required=True, metavar="FILE", help="CA certificate of the API server")
    parser.add_argument("--tokens", required=True, metavar="FILE", help="JSON object with tokens by node name")
    parser.add_argument("--directory", required=True, type=Path, metavar="DIR", help="parent of the root directories")
    parser.add_argument("--report", required=True, type=Path, metavar="FILE", help="written every 2 s: lag of the loop")
    options = parser.parse_args()
    options.tokens = json.loads(Path(options.tokens).read_text())
    logging.basicConfig(level=logging.ERROR)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(_run(options))


async def _run(options: argparse.Namespace) -> None:
    stopping = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stopping.set)
    agents: list[Agent] = []
    tasks: list[asyncio.Task[Any]] = [asyncio.create_task(_report(options.report))]
    for name, token in options.tokens.items():
        agents.append(agent := _agent(options, name, token))
        tasks.append(asyncio.create_task(agent.run()))
        await asyncio.sleep(START_SECONDS)  # Registrations and heartbeats are spread, as those of real nodes.
    stopped = asyncio.create_task(stopping.wait())
    await asyncio.wait([stopped, *tasks], return_when=asyncio.FIRST_COMPLETED)
    for task in tasks:
        if task.done():
            task.result()
    for agent in agents:
        agent.stop()
    tasks[0].cancel()
    await asyncio.wait(tasks, timeout=30)


def _agent(options: argparse.Namespace, name: str, token: str) -> Agent:
    root: Path = options.directory / name
    root.mkdir(parents=True)
    access = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [
            {"name": "fleet", "cluster": {"server": options.server, "certificate-authority": options.ca_file}}
        ],
        "users": [{"name": "node", "user": {"token": token}}],
        "contexts": [{"name": "node", "context": {"cluster": "fleet", "user": "node"}}],
        "current-context": "node",
    }
    (root / "kubeconfig").write_text(yaml.safe_dump(access))
    flags = {
        "root-dir": root,
        "cert-dir": root / "pki",
        "hostname-override": name,
        "kubeconfig": root / "kubeconfig",
        "container-runtime-endpoint": "unix:///fake",
        "node-ip": "127.0.0.1",
        "cluster-dns": "192.0.2.53",
    }
    loaded = load_configuration([f"--{flag}={value}" for flag, value in flags.items()])
    changed = {"enable_server": False, "healthz_port": 0, "fail_swap_on": False}
    plugins = PluginManager()
    plugins.load_entry_points({entry.name for entry in importlib.metadata.entry_points(group=GROUP)} - PLUGINS)
    plugins.register(_fakes(), name="fakes", origin="benchmarks")
    return Agent(
        msgspec.structs.replace(loaded, config=msgspec.structs.replace(loaded.config, **changed)),
        plugins,
        plugin_config=PluginConfig({"pod_sync": {"log_root": str(root / "log")}}, NO_STALLS),
        prepare=functools.partial(prepare_root, change=lambda root: None),
    )


def _fakes() -> object:
    """Return a plugin that provides the fakes."""
    clock, images = SystemClock(), FakeImages()
    runtime = FakeRuntime(clock, notifies=True)
    runtime.calls = deque(maxlen=KEPT_CALLS)  # type: ignore[assignment]
    provided = {
        "runtime": runtime,
        "image_service": images,
        "image_puller": FakePuller(images),
        "cgroups": FakeCgroups(),
        "stats": FakeStats(),
    }

    class Hooks:
        """Hooks that return the fakes."""

    for name, value in provided.items():
        setattr(Hooks, f"nodeagent_provide_{name}", hookimpl(_returning(value)))
    return Hooks()


def _returning(value: Any) -> Callable[[object], Any]:
    def provide(self: object) -> Any:
        return value

    return provide


async def _report(file: Path) -> None:
    """Write the longest lag of the event loop since the start of each interval."""
    while True:
        longest, until = 0.0, time.monotonic() + REPORT_SECONDS
        while (before := time.monotonic()) < until:
            await asyncio.sleep(0.05)
            longest = max(longest, time.monotonic() - before - 0.05)
        with contextlib.suppress(OSError):
            await asyncio.to_thread(file.write_text, json.dumps({"lag": longest}))


if __name__ == "__main__":
    main()

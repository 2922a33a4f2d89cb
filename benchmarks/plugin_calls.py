"""Admission calls of plugins: a Python module in the agent, and separate processes in Python and JavaScript."""

from __future__ import annotations

import asyncio
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import uvloop

from benchmarks.figures import Figure
from nodeagent import hookimpl
from nodeagent.base.aio import SystemClock
from nodeagent.model.pod import Pod
from nodeagent.pluginmanager import PluginManager
from nodeagent.testing import make_container, make_pod
from nodeagent_plugins.external_plugins.admission import Admission
from nodeagent_plugins.external_plugins.hook_calls import HookCalls
from nodeagent_plugins.external_plugins.session import Session
from nodeagent_plugins.external_plugins.settings import ExternalPlugin
from tests import external_plugin

ROOT = Path(__file__).parent.parent
LIBRARIES = ROOT / "build" / "example-external" / "node_modules"
HOOK = "nodeagent_admit_pod"
CALLS = 3000
PARALLEL = 16
START_SECONDS = 20.0
SETTINGS = {"registries": ["registry.example"]}

KINDS = {"module": "module in the agent", "python": "process in Python", "javascript": "process in JavaScript"}
FIGURES = tuple(
    figure
    for kind, text in KINDS.items()
    for figure in (
        Figure(f"{kind}_rate", f"{text}: calls one after another", "1/s"),
        Figure(f"{kind}_p50", f"{text}: duration of a call, median", "ms"),
        Figure(f"{kind}_p99", f"{text}: duration of a call, 99th percentile", "ms"),
        Figure(f"{kind}_parallel", f"{text}: {PARALLEL} calls at a time", "1/s"),
    )
)


def run() -> dict[str, float]:
    return uvloop.run(_run())


async def _run() -> dict[str, float]:
    pods = [
        make_pod(
            f"web-{number}", uid=f"uid-{number}", containers=[make_container("web", image="registry.example/app:1")]
        )
        for number in range(CALLS)
    ]
    figures: dict[str, float] = {}
    figures |= await _measure("module", PluginManager(), Module(), pods)
    with tempfile.TemporaryDirectory(prefix="bench-") as directory:
        for kind, command in (
            ("python", [sys.executable, str(Path(external_plugin.__file__).with_name("__main__.py"))]),
            ("javascript", ["node", str(_javascript(Path(directory)))]),
        ):
            name, socket = "image_registries" if kind == "javascript" else kind, Path(directory) / f"{kind}.sock"
            plugin = ExternalPlugin(name=name, capabilities=frozenset({"admission"}), settings=SETTINGS)
            session, manager = Session(plugin, "node-1", SystemClock()), PluginManager()
            with _started(kind, command, name, socket):
                async with session.opened(str(socket)):
                    hooks = Admission(HookCalls(session, manager.deadline_of))
                    figures |= await _measure(kind, manager, hooks, pods)
    return figures


class Module:
    """A plugin that is imported."""

    @hookimpl
    async def nodeagent_admit_pod(self, pod: Pod) -> None:
        return None


async def _measure(kind: str, manager: PluginManager, plugin: object, pods: Sequence[Pod]) -> dict[str, float]:
    manager.register(plugin, name=kind, origin="benchmark")

    async def call(pod: Pod) -> float:
        started = time.perf_counter()
        assert await manager.call_first(HOOK, pod=pod, active=()) is None
        return time.perf_counter() - started

    async def call_all(mine: Sequence[Pod]) -> None:
        for pod in mine:
            await call(pod)

    await call_all(pods[:100])
    started = time.perf_counter()
    durations = [await call(pod) for pod in pods]
    seconds = time.perf_counter() - started
    parallel = time.perf_counter()
    await asyncio.gather(*(call_all(pods[start::PARALLEL]) for start in range(PARALLEL)))
    return {
        f"{kind}_rate": len(pods) / seconds,
        f"{kind}_p50": statistics.median(durations) * 1000,
        f"{kind}_p99": statistics.quantiles(durations, n=100)[98] * 1000,
        f"{kind}_parallel": len(pods) / (time.perf_counter() - parallel),
    }


@contextmanager
def _started(kind: str, command: list[str], name: str, socket: Path) -> Iterator[None]:
    """Run a plugin that serves *socket*."""
    environment: dict[str, Any] = {
        **os.environ,
        "PYTHONPATH": f"{ROOT}:{ROOT / 'plugins'}",
        "NODEAGENT_PLUGIN_NAME": name,
        "NODEAGENT_PLUGIN_SOCKET": str(socket),
    }
    with subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL) as process:
        try:
            limit = time.monotonic() + START_SECONDS
            while not socket.exists():
                if process.poll() is not None or time.monotonic() > limit:
                    raise RuntimeError(f"the plugin in {kind} does not start; run tools/test-parts")
                time.sleep(0.05)
            yield
        finally:
            process.kill()


def _javascript(directory: Path) -> Path:
    """Return the example plugin with its libraries and the protocol."""
    for file in (ROOT / "plugins" / "example_external").glob("*.js*"):
        shutil.copy(file, directory)
    shutil.copy(ROOT / "nodeagent" / "base" / "pluginproto" / "plugin_v1.proto", directory / "plugin.proto")
    (directory / "node_modules").symlink_to(LIBRARIES)
    return directory / "plugin.js"

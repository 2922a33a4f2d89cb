"""Fifty pods with 8 devices each: time that the device manager adds, and the idle agent with and without it."""

from __future__ import annotations

import asyncio
import statistics
import tempfile
import time
from functools import cache
from pathlib import Path

from benchmarks.figures import Figure
from benchmarks.node import PODS, SETTLE_SECONDS, Executables, idle_percent, quick_directory, started_runtime, stop
from nodeagent.base.aio import SystemClock
from nodeagent.model.pod import Pod
from nodeagent.testing import eventually, make_container, make_context, make_pod
from nodeagent_plugins.device_plugins.endpoints import Endpoints
from nodeagent_plugins.devices.manager import Devices
from tests.device_plugin import Control
from tests.integration.programs import Program, wait_until

RESOURCE = "example.com/widget"
PER_POD = 8
PLUGINS = ("device_plugins", "device_files")

FIGURES = (
    Figure("added", f"admission and allocation of {PER_POD} devices, mean", "ms per pod", at_most=5),
    Figure("admission", "admission, median", "ms per pod"),
    Figure("allocation", "allocation, median", "ms per pod"),
    Figure("together", f"allocation, {PODS} pods together", "ms per pod", at_most=5),
    Figure("cpu", "agent CPU", "ms per pod"),
    Figure("idle", "idle agent without a device plugin", "% of a core"),
    Figure("idle_disabled", f"idle agent without the plugins {', '.join(PLUGINS)}", "% of a core"),
    Figure("rss", "agent memory (RSS) without a device plugin", "MiB"),
    Figure("rss_disabled", "agent memory (RSS) without the plugins", "MiB"),
)


class Plugin(Program):
    """Process of the device plugin, which does not register."""

    def __init__(self, directory: Path, devices: int) -> None:
        super().__init__("plugin", directory)
        self.control = Control(directory / "p")
        self.control.set_devices([{"id": f"w{number}"} for number in range(devices)])

    def start(self) -> Path:
        state = str(self.control.directory)
        self.launch("tests.device_plugin", "--serve-only", "--directory", str(self.directory), "--state", state)
        socket = self.directory / "w.sock"
        wait_until(socket.exists, "the plugin serves")
        return socket


def run() -> dict[str, float]:
    with tempfile.TemporaryDirectory(prefix="db-") as name:  # On the disk, as the checkpoint usually is.
        plugin = Plugin(Path(name), PODS * PER_POD)
        try:
            result = _runner().run(_allocate(Path(name), plugin.start()))
        finally:
            plugin.kill()
    for suffix, disabled in (("", ()), ("_disabled", PLUGINS)):
        result |= {f"{key}{suffix}": value for key, value in _idle(disabled).items()}
    return result


@cache
def _runner() -> asyncio.Runner:
    """Return the event loop of all runs: gRPC keeps using the first one."""
    return asyncio.Runner()


async def _allocate(directory: Path, socket: Path) -> dict[str, float]:
    """Measure the device manager with a real plugin; each response is stored."""
    context = make_context(directory, clock=SystemClock())  # type: ignore[arg-type]
    devices = Devices(context, (), directory / "device-plugins")
    await devices.start()
    await Endpoints(devices, cdi=True).connect(RESOURCE, str(socket))
    await eventually(lambda: devices.reservations.resources[RESOURCE].connected)
    limits = {"limits": {RESOURCE: str(PER_POD)}}
    pods = [make_pod(f"p{number}", containers=[make_container("main", resources=limits)]) for number in range(PODS)]
    admissions, allocations = [], []
    used = time.process_time()
    for pod in pods:
        started = time.perf_counter()
        await _admit(devices, pod)
        admissions.append((time.perf_counter() - started) * 1000)
        context.pods.add(pod)  # type: ignore[attr-defined]
        started = time.perf_counter()
        await devices.prepare_pod(pod)
        allocations.append((time.perf_counter() - started) * 1000)
    cpu = time.process_time() - used
    for pod in pods:
        await devices.nodeagent_pod_terminated(pod)
        await _admit(devices, pod)
    started = time.perf_counter()
    await asyncio.gather(*map(devices.prepare_pod, pods))
    together = time.perf_counter() - started
    await context.tasks.close()
    return {
        "added": statistics.fmean(admissions) + statistics.fmean(allocations),
        "admission": statistics.median(admissions),
        "allocation": statistics.median(allocations),
        "together": together * 1000 / PODS,
        "cpu": cpu * 1000 / PODS,
    }


async def _admit(devices: Devices, pod: Pod) -> None:
    rejection = await devices.nodeagent_admit_pod(pod, [])
    if rejection is not None:
        raise RuntimeError(rejection.message)


def _idle(disabled: tuple[str, ...]) -> dict[str, float]:
    with quick_directory() as directory, started_runtime() as runtime:
        agent = Executables.new_agent(directory, runtime.endpoint, None, directory / "log")
        agent.left_out += disabled
        try:
            agent.start()
            time.sleep(SETTLE_SECONDS)
            return {"idle": idle_percent(agent), "rss": agent.rss_mib()}
        finally:
            stop(agent)

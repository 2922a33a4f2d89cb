"""Allocation of devices: time that the device manager adds to a pod, with a real device plugin process.

``python -m benchmarks.devices`` prints the times of admission and of allocation per pod, for 50 pods with 8 devices
each; the plugin responds over gRPC, and each allocation is stored on disk.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import tempfile
import time
from pathlib import Path

from nodeagent.base.aio import SystemClock
from nodeagent.model.pod import Pod
from nodeagent.testing import eventually, make_container, make_context, make_pod
from nodeagent_plugins.device_plugins.endpoints import Endpoints
from nodeagent_plugins.devices.manager import Devices
from tests.device_plugin import Control
from tests.integration.programs import Program, wait_until

RESOURCE = "example.com/widget"


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


async def measure(directory: Path, socket: Path, pods: list[Pod]) -> tuple[list[float], list[float]]:
    """Return the times of admission and allocation of each pod, in milliseconds."""
    context = make_context(directory, clock=SystemClock())  # type: ignore[arg-type]
    devices = Devices(context, (), directory / "device-plugins")
    await devices.start()
    await Endpoints(devices, cdi=True).connect(RESOURCE, str(socket))
    await eventually(lambda: devices.reservations.resources[RESOURCE].connected)
    admissions, allocations = [], []
    used = time.process_time()
    for pod in pods:
        started = time.perf_counter()
        rejection = await devices.nodeagent_admit_pod(pod, [])
        admissions.append((time.perf_counter() - started) * 1000)
        assert rejection is None, rejection
        context.pods.add(pod)  # type: ignore[attr-defined]
        started = time.perf_counter()
        await devices.prepare_pod(pod)
        allocations.append((time.perf_counter() - started) * 1000)
    print(f"CPU time of the agent: {(time.process_time() - used) * 1000 / len(pods):.2f} ms per pod")
    await context.tasks.close()
    return admissions, allocations


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.devices", description=__doc__.splitlines()[0])
    parser.add_argument("--pods", type=int, default=50)
    parser.add_argument("--devices", type=int, default=8, help="devices per pod")
    arguments = parser.parse_args()
    limits = {"limits": {RESOURCE: str(arguments.devices)}}
    pods = [make_pod(f"p{n}", containers=[make_container("main", resources=limits)]) for n in range(arguments.pods)]
    with tempfile.TemporaryDirectory(prefix="db-") as name:
        directory = Path(name)
        plugin = Plugin(directory, arguments.pods * arguments.devices)
        try:
            socket = plugin.start()
            results = asyncio.run(measure(directory, socket, pods))
        finally:
            plugin.kill()
    for kind, values in zip(("admission", "allocation"), results, strict=True):
        print(
            f"{kind}: median {statistics.median(values):.2f} ms, mean {statistics.fmean(values):.2f} ms, "
            f"max {max(values):.2f} ms"
        )


if __name__ == "__main__":
    main()

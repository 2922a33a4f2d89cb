"""Samples of the resources that the agent, the API server and their pods use."""

from __future__ import annotations

import asyncio
import os
import re
import time
from collections.abc import Callable
from pathlib import Path

from nodeagent.base.mounts.table import read_mounts
from tests.integration.programs import Program
from tests.soak.client import Client
from tests.soak.node import SoakNode

PERIOD_SECONDS = 10.0
AGENT, SERVER = "agent", "API server"
TASKS = "/debug/pprof/goroutine?debug=1"
METRICS = "/metrics"
_TOTAL = re.compile(r"total (\d+)")
_BLOCKS, _HEAP = "process_allocated_blocks", "process_heap_allocated_bytes"

_PARENTS = {"kubepods", "burstable", "besteffort"}

RSS, CPU = "RSS, MiB", "CPU, % of a core"
BLOCKS, HEAP = "allocated blocks of Python", "allocated by the C library, MiB"
INODES, CGROUPS, MOUNTS = "inodes of the agent", "cgroups of pods", "mounts"


class Sampler:
    """Time series of all figures.

    :ivar times: seconds since the start, per sample.
    :ivar series: values by figure; ``None`` if one could not be read.
    :ivar quiet: indexes of the samples at the end of a round, when the node has no pods and no clients.
    """

    def __init__(self, node: SoakNode, client: Client) -> None:
        self._node, self._client = node, client
        self._started = time.monotonic()
        self._cpu: dict[str, tuple[float, float]] = {}
        self.times: list[float] = []
        self.series: dict[str, list[float | None]] = {}
        self.quiet: list[int] = []

    async def run(self) -> None:
        """Take samples until cancelled."""
        loop = asyncio.get_running_loop()
        due = loop.time()
        while True:
            await self.sample()
            due = max(due + PERIOD_SECONDS, loop.time())
            await asyncio.sleep(due - loop.time())

    async def sample(self, *, quiet: bool = False) -> dict[str, float | None]:
        """Take a sample and return it."""
        values: dict[str, float | None] = {}
        for name, process in ((AGENT, self._node.agent), (SERVER, self._node.api)):
            values |= {f"{name}: {figure}": value for figure, value in (await self._of_process(name, process)).items()}
        values |= await asyncio.to_thread(self._of_host)
        self.times.append(time.monotonic() - self._started)
        if quiet:
            self.quiet.append(len(self.times) - 1)
        for figure, value in values.items():
            self.series.setdefault(figure, []).append(value)
        return values

    async def _of_process(self, name: str, process: Program) -> dict[str, float | None]:
        proc, now = Path(f"/proc/{process.pid}"), time.monotonic()
        cpu = _read(process.cpu_seconds)
        before, self._cpu[name] = self._cpu.get(name), (now, cpu or 0.0)
        read = self._client.text if name == SERVER else self._client.agent_text
        total = _TOTAL.search(await read(TASKS))
        metrics = _metrics(await read(METRICS))
        heap = metrics.get(_HEAP)
        return {
            RSS: _read(process.rss_mib),
            "descriptors": _read(lambda: len(os.listdir(proc / "fd"))),
            "tasks": float(total[1]) if total else None,
            "threads": _read(lambda: len(os.listdir(proc / "task"))),
            BLOCKS: metrics.get(_BLOCKS),
            HEAP: None if heap is None else heap / (1 << 20),
            CPU: None if before is None or cpu is None else 100 * (cpu - before[1]) / (now - before[0]),
        }

    def _of_host(self) -> dict[str, float | None]:
        return {
            INODES: float(sum(len(files) + len(names) for _, names, files in os.walk(self._node.disk))),
            CGROUPS: float(_cgroups(self._node.cgroup)),
            MOUNTS: float(sum(self._is_below(each.path) for each in read_mounts())),
        }

    def _is_below(self, path: str) -> bool:
        return Path(path).is_relative_to(self._node.disk) or Path(path).is_relative_to(self._node.runtime.directory)


def _read(figure: Callable[[], float]) -> float | None:
    """Return the figure, or ``None`` if the process has exited."""
    try:
        return figure()
    except (OSError, StopIteration):
        return None


def _metrics(page: str) -> dict[str, float]:
    """Return the metrics without labels that this module reads."""
    lines = (line.partition(" ") for line in page.splitlines() if line.startswith((_BLOCKS, _HEAP)))
    return {name: float(value) for name, _, value in lines}


def _cgroups(name: str) -> int:
    """Return the number of cgroups of pods and containers below a cgroup, in all hierarchies."""
    roots = [Path("/sys/fs/cgroup"), *Path("/sys/fs/cgroup").iterdir()]
    existing = [root / name for root in roots if (root / name).is_dir()]
    found = (set(directories) for root in existing for _, directories, _ in os.walk(root))
    return sum(len(directories - _PARENTS) for directories in found)

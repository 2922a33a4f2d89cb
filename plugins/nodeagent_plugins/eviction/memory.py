"""How much memory is left, read often and cheaply, or told by the kernel.

What is read here are numbers that the kernel makes up when asked, in some ten microseconds and without waiting for any
device: a thread would cost more than the reading.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from nodeagent.base.aio import Clock
from nodeagent.contracts.cgroups import CgroupManager
from nodeagent.model.eviction_thresholds import Signal, Threshold
from nodeagent.model.meta import ObjectMeta
from nodeagent.model.pod import Pod, PodStatus
from nodeagent.model.qos import QosClass
from nodeagent_plugins.eviction.notification import STALLS, StallNotification, UsageNotification

SHORTEST_POLL_SECONDS = 0.25
LONGEST_POLL_SECONDS = 0.75
"""Short enough for a round within a second of the crossing, whatever takes memory how fast."""
FASTEST_USE = 8 << 30
"""Bytes a second; while more than what can be taken at this pace is left, memory is read less often."""
REPEAT_SECONDS = 1.0
"""How often a threshold that stays crossed is reported again."""
REARM_SECONDS = 10.0

_log = logging.getLogger(__name__)
_BUFFER = 16 * 1024


@dataclass(frozen=True, slots=True)
class MemoryReading:
    """Bytes of the whole node; inactive pages of files count as used but can be had back at once."""

    capacity: int
    usage: int
    inactive_file: int

    @property
    def available(self) -> int:
        return self.capacity - max(0, self.usage - self.inactive_file)


class MemorySource(Protocol):
    """Something whose memory is watched."""

    cgroup: Path | None
    """Where the kernel of cgroup v1 takes orders to tell about it; ``None`` with v2."""

    def glance(self) -> MemoryReading:
        """Return no more than what is available, without what costs the kernel most to sum up.

        :raises OSError, ValueError: as :meth:`read` does.
        """
        ...

    def read(self) -> MemoryReading:
        """Read now; blocks for microseconds.

        :raises OSError: a file is not there.
        :raises ValueError: a file does not say what it should, or memory is not limited.
        """
        ...


class NodeMemory:
    """The memory of the whole node.

    :param root: the root of the file system, for tests.
    """

    def __init__(self, root: Path = Path("/")) -> None:
        self._meminfo = str(root / "proc/meminfo")
        self.cgroup = _find_mount(root, "cgroup", "memory")

    def read(self) -> MemoryReading:
        if self.cgroup is None:
            return self.glance()
        capacity = _number(_read(self._meminfo), b"MemTotal:") * 1024
        usage, inactive = _usage_of_v1(self.cgroup)
        return MemoryReading(capacity, usage, inactive)

    def glance(self) -> MemoryReading:
        meminfo = _read(self._meminfo)
        capacity = _number(meminfo, b"MemTotal:") * 1024
        # what the kernel keeps for itself counts here, and not in the cgroups of v1
        free, inactive = _number(meminfo, b"\nMemFree:") * 1024, _number(meminfo, b"\nInactive(file):") * 1024
        return MemoryReading(capacity, capacity - free, inactive)


class CgroupMemory:
    """The memory that a cgroup with a limit may use, such as that of all pods.

    :param name: its path below the mount point, beginning with ``/``.
    """

    def __init__(self, name: str, root: Path = Path("/")) -> None:
        mount = _find_mount(root, "cgroup", "memory")
        unified = _find_mount(root, "cgroup2", "") or root / "sys/fs/cgroup"
        self.cgroup = None if mount is None else mount / name.lstrip("/")
        self._unified = unified / name.lstrip("/")

    def read(self) -> MemoryReading:
        seen = self.glance()
        if self.cgroup is not None:
            return MemoryReading(seen.capacity, *_usage_of_v1(self.cgroup))
        inactive = _number(_read(f"{self._unified}/memory.stat"), b"\ninactive_file ")
        return MemoryReading(seen.capacity, seen.usage, inactive)

    def glance(self) -> MemoryReading:
        if self.cgroup is not None:
            place, files = self.cgroup, ("memory.usage_in_bytes", "memory.limit_in_bytes")
        else:
            place, files = self._unified, ("memory.current", "memory.max")
        usage, limit = (int(_read(f"{place}/{file}")) for file in files)
        return MemoryReading(limit, usage, 0)


class MemoryWatch:
    """Calls *crossed* as soon as less memory is left than a threshold allows.

    Hard thresholds are compared with what is left more than once a second. With *kernel* the kernel is asked to tell,
    of soft ones too. On cgroup v1 it tells of the crossing itself, and nothing is polled; it is told each ten seconds
    what to look for, because how much of the memory in use can be had back changes. On v2 it tells when processes
    begin to wait for memory, and all thresholds are looked at once more then.
    spec: config.kernelMemcgNotification

    :param sources: what the signals are about; thresholds of other signals are left alone.
    :param stalls: where the kernel tells who waits for memory.
    """

    def __init__(
        self,
        thresholds: Sequence[Threshold],
        sources: Mapping[Signal, MemorySource],
        clock: Clock,
        crossed: Callable[[], None],
        *,
        kernel: bool = False,
        stalls: Path = STALLS,
    ) -> None:
        self._stalls = stalls
        self._thresholds = [each for each in thresholds if each.signal in sources]
        self._sources, self._clock, self._crossed, self._kernel = sources, clock, crossed, kernel
        self._failing: set[tuple[Signal, bool]] = set()

    @property
    def wanted(self) -> bool:
        """Whether there is anything to watch."""
        return any(each.hard for each in self._thresholds) or (self._kernel and bool(self._thresholds))

    async def run(self) -> None:
        """Watch until cancelled."""
        with contextlib.ExitStack() as armed:
            try:
                if self._kernel and any(source.cgroup is None for source in self._sources.values()):
                    armed.enter_context(StallNotification(self._stalls, self._look))
                elif self._kernel:
                    await self._listen()
            except OSError as error:
                _log.warning("Memory is polled: the kernel does not notify", extra={"err": str(error)})
            await self._poll()

    def _look(self) -> None:
        """Compare every threshold with what is left now."""
        if any(_left(each, reading) < 0 for each, reading in self._readings(self._thresholds)):
            self._crossed()

    async def _poll(self) -> None:
        hard = [each for each in self._thresholds if each.hard]
        if not hard:
            await asyncio.Event().wait()  # the ordinary rounds are enough for soft ones
        reported, pause = float("-inf"), SHORTEST_POLL_SECONDS
        while True:
            await self._clock.sleep(pause)
            left = [_left(each, reading) for each, reading in self._readings(hard, glance=True)]
            if min(left, default=0) < LONGEST_POLL_SECONDS * FASTEST_USE:
                left = [_left(each, reading) for each, reading in self._readings(hard)]
            pause = min(LONGEST_POLL_SECONDS, max(SHORTEST_POLL_SECONDS, min(left, default=0) / FASTEST_USE))
            if min(left, default=0) >= 0:
                reported = float("-inf")
            elif self._clock.now() - reported >= REPEAT_SECONDS:
                reported = self._clock.now()
                self._crossed()

    async def _listen(self) -> None:
        while True:
            with contextlib.ExitStack() as armed:
                for each, reading in self._readings(self._thresholds):
                    cgroup = self._sources[each.signal].cgroup
                    assert cgroup is not None, "not called with cgroup v2"
                    limit = reading.capacity - each.limit.of(reading.capacity) + reading.inactive_file
                    armed.enter_context(UsageNotification(cgroup, limit, self._crossed))
                    if each.hard and reading.usage > limit:
                        self._crossed()  # it was crossed while nobody listened
                await self._clock.sleep(REARM_SECONDS)

    def _readings(
        self, thresholds: Sequence[Threshold], *, glance: bool = False
    ) -> list[tuple[Threshold, MemoryReading]]:
        """Return what can be read of each threshold's memory."""
        found = self._read({each.signal for each in thresholds}, glance=glance)
        return [(each, found[each.signal]) for each in thresholds if each.signal in found]

    def read(self) -> dict[Signal, MemoryReading]:
        """Return what can be read of all memory that is watched."""
        return self._read(self._sources.keys(), glance=False)

    def _read(self, signals: Set[Signal], *, glance: bool) -> dict[Signal, MemoryReading]:
        found = {}
        for signal in signals:
            source = self._sources[signal]
            try:
                found[signal] = source.glance() if glance else source.read()
            except (OSError, ValueError) as error:
                if (signal, glance) not in self._failing:
                    _log.info("Memory cannot be watched now", extra={"signal": str(signal), "err": repr(error)})
                self._failing.add((signal, glance))
            else:
                self._failing.discard((signal, glance))
        return found


def _left(threshold: Threshold, reading: MemoryReading) -> int:
    """Return how many bytes can still be taken before *threshold* is crossed."""
    return reading.available - threshold.limit.of(reading.capacity)


def pods_cgroup(cgroups: CgroupManager) -> str:
    """Return the cgroup that those of all pods are in: the place of a Guaranteed pod's tells; empty without one."""
    pod = Pod(metadata=ObjectMeta(name="any", uid="any"), status=PodStatus(qos_class=QosClass.GUARANTEED))
    parent = cgroups.parent_of(pod)
    if parent.endswith(".slice") and "/" not in parent.strip("/"):
        parts = parent.strip("/").removesuffix(".slice").split("-")[:-1]
        return "".join(f"/{'-'.join(parts[: i + 1])}.slice" for i in range(len(parts)))
    return parent.rpartition("/")[0]


def _usage_of_v1(cgroup: Path) -> tuple[int, int]:
    """Return the bytes in use and those of them in inactive pages of files."""
    usage = int(_read(f"{cgroup}/memory.usage_in_bytes"))
    return usage, _number(_read(f"{cgroup}/memory.stat"), b"\ntotal_inactive_file ")


def _find_mount(root: Path, kind: str, controller: str) -> Path | None:
    try:
        lines = (root / "proc/self/mountinfo").read_text().splitlines()
    except OSError:
        return None
    for line in lines:
        fields, _, rest = line.partition(" - ")
        found, _, options = rest.partition(" ")
        if found == kind and (not controller or controller in options.split(" ")[-1].split(",")):
            return root / fields.split(" ")[4].lstrip("/")
    return None


def _read(file: str) -> bytes:
    descriptor = os.open(file, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return os.read(descriptor, _BUFFER)
    finally:
        os.close(descriptor)


def _number(text: bytes, key: bytes) -> int:
    """Return the number behind *key*.

    :raises ValueError: it is not there.
    """
    start = text.index(key) + len(key)
    return int(text[start : start + 32].strip().partition(b"\n")[0].partition(b" ")[0])

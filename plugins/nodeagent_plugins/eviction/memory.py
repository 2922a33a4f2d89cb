"""How much memory is left, read often and cheaply, or told by the kernel."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from nodeagent.base.aio import Clock
from nodeagent.model.eviction_thresholds import Signal, Threshold

SHORTEST_POLL_SECONDS = 0.25
LONGEST_POLL_SECONDS = 0.75
"""Short enough for a round within a second of the crossing, whatever takes memory how fast."""
FASTEST_USE = 8 << 30
"""Bytes a second; while more than what can be taken at this pace is left, memory is read less often."""
REPEAT_SECONDS = 1.0
"""How often a threshold that stays crossed is reported again."""
REARM_SECONDS = 10.0

_log = logging.getLogger(__name__)
_MEMINFO = "proc/meminfo"
_BUFFER = 64 * 1024


@dataclass(frozen=True, slots=True)
class MemoryReading:
    """Bytes of the whole node; inactive pages of files count as used but can be had back at once."""

    capacity: int
    usage: int
    inactive_file: int

    @property
    def available(self) -> int:
        return self.capacity - max(0, self.usage - self.inactive_file)


class MemoryFiles:
    """Where the kernel tells about the node's memory.

    :param root: the root of the file system, for tests.
    """

    def __init__(self, root: Path = Path("/")) -> None:
        self._meminfo = str(root / _MEMINFO)
        self.cgroup = _find_memory_cgroup(root)
        """Mount point of the memory controller of cgroup v1; ``None`` with v2."""

    def read(self) -> MemoryReading:
        """Read now; blocks.

        :raises OSError: a file is not there.
        :raises ValueError: a file does not say what it should.
        """
        meminfo = _read(self._meminfo)
        capacity = _number(meminfo, b"MemTotal:") * 1024
        if self.cgroup is None:
            free, inactive = _number(meminfo, b"\nMemFree:") * 1024, _number(meminfo, b"\nInactive(file):") * 1024
            return MemoryReading(capacity, capacity - free, inactive)
        usage = int(_read(f"{self.cgroup}/memory.usage_in_bytes"))
        inactive = _number(_read(f"{self.cgroup}/memory.stat"), b"\ntotal_inactive_file ")
        return MemoryReading(capacity, usage, inactive)


class MemoryWatch:
    """Calls *crossed* as soon as less memory is left than a threshold allows.

    Hard thresholds are compared with what is left several times a second. With *kernel*, on cgroup v1, the kernel is
    asked to tell instead, of soft ones too, and told each ten seconds what to look for, because how much of the memory
    in use can be had back changes.
    spec: config.kernelMemcgNotification
    """

    def __init__(
        self,
        thresholds: Sequence[Threshold],
        files: MemoryFiles,
        clock: Clock,
        crossed: Callable[[], None],
        *,
        kernel: bool = False,
    ) -> None:
        self._thresholds = [each for each in thresholds if each.signal is Signal.MEMORY]
        self._files, self._clock, self._crossed, self._kernel = files, clock, crossed, kernel
        self._failing = False

    @property
    def wanted(self) -> bool:
        """Whether there is anything to watch."""
        return any(each.hard for each in self._thresholds) or (self._kernel and bool(self._thresholds))

    async def run(self) -> None:
        """Watch until cancelled."""
        if self._kernel and self._files.cgroup is None:
            _log.info("Memory is polled: cgroup v2 has no notification of thresholds")
        elif self._kernel:
            try:
                await self._listen()
            except OSError as error:
                _log.warning("Memory is polled: the kernel does not notify", extra={"err": str(error)})
        await self._poll()

    async def _poll(self) -> None:
        hard = [each for each in self._thresholds if each.hard]
        if not hard:
            await asyncio.Event().wait()  # the ordinary rounds are enough for soft ones
        reported, pause = float("-inf"), SHORTEST_POLL_SECONDS
        while True:
            await self._clock.sleep(pause)
            reading = await self._read()
            if reading is None:
                pause = LONGEST_POLL_SECONDS
                continue
            left = min(reading.available - each.limit.of(reading.capacity) for each in hard)
            pause = min(LONGEST_POLL_SECONDS, max(SHORTEST_POLL_SECONDS, left / FASTEST_USE))
            if left >= 0:
                reported = float("-inf")
            elif self._clock.now() - reported >= REPEAT_SECONDS:
                reported = self._clock.now()
                self._crossed()

    async def _listen(self) -> None:
        assert self._files.cgroup is not None
        while True:
            with contextlib.ExitStack() as armed:
                reading = await self._read()
                for each in self._thresholds if reading is not None else ():
                    assert reading is not None
                    limit = reading.capacity - each.limit.of(reading.capacity) + reading.inactive_file
                    armed.enter_context(_Notification(self._files.cgroup, limit, self._crossed))
                    if each.hard and reading.usage > limit:
                        self._crossed()  # it was crossed while nobody listened
                await self._clock.sleep(REARM_SECONDS)

    async def _read(self) -> MemoryReading | None:
        try:
            reading = await asyncio.to_thread(self._files.read)
        except (OSError, ValueError) as error:
            if not self._failing:
                _log.error("Memory of the node cannot be read", extra={"err": repr(error)})
            self._failing = True
            return None
        self._failing = False
        return reading


class _Notification:
    """Has the kernel call back when the memory in use crosses *limit*, up or down; for the length of a ``with``."""

    def __init__(self, cgroup: Path, limit: int, crossed: Callable[[], None]) -> None:
        self._cgroup, self._limit, self._crossed = cgroup, limit, crossed
        self._event = -1

    def __enter__(self) -> _Notification:
        self._event = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        try:
            with (self._cgroup / "memory.usage_in_bytes").open("rb") as usage:
                order = f"{self._event} {usage.fileno()} {self._limit}"
                with (self._cgroup / "cgroup.event_control").open("wb", buffering=0) as control:
                    control.write(order.encode())
            asyncio.get_running_loop().add_reader(self._event, self._happened)
        except BaseException:
            os.close(self._event)
            raise
        return self

    def __exit__(self, *_: object) -> None:
        asyncio.get_running_loop().remove_reader(self._event)
        os.close(self._event)

    def _happened(self) -> None:
        with contextlib.suppress(BlockingIOError):
            os.eventfd_read(self._event)
        self._crossed()


def _find_memory_cgroup(root: Path) -> Path | None:
    try:
        lines = (root / "proc/self/mountinfo").read_text().splitlines()
    except OSError:
        return None
    for line in lines:
        fields, _, rest = line.partition(" - ")
        kind, _, options = rest.partition(" ")
        if kind == "cgroup" and "memory" in options.split(" ")[-1].split(","):
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

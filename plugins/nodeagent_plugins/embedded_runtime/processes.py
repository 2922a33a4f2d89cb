"""Processes that are not our children: told apart from later ones with the same number, signalled, waited for."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Process:
    """One process, whoever started it."""

    pid: int
    started: int
    """Clock ticks between the start of the machine and its own."""
    boot: str
    """Which start of the machine that was."""

    @classmethod
    def of(cls, pid: int) -> Process | None:
        """Return the process that has *pid* now, or ``None`` when there is none."""
        started = _start_of(pid)
        return None if started is None else cls(pid, started, boot_id())

    @property
    def alive(self) -> bool:
        """Whether it still runs; one that only waits to be reaped does not."""
        return self.boot == boot_id() and _start_of(self.pid) == self.started

    def send(self, number: int) -> bool:
        """Send a signal; return whether the process was there to get it."""
        try:
            descriptor = os.pidfd_open(self.pid)
        except OSError:
            return False
        try:
            if not self.alive:
                return False
            signal.pidfd_send_signal(descriptor, number)
        except ProcessLookupError:
            return False
        finally:
            os.close(descriptor)
        return True

    async def ended(self) -> None:
        """Return once it has ended."""
        try:
            descriptor = os.pidfd_open(self.pid)
        except OSError:
            return
        try:
            if not self.alive:
                return
            loop, done = asyncio.get_running_loop(), asyncio.Event()
            loop.add_reader(descriptor, done.set)
            try:
                await done.wait()
            finally:
                loop.remove_reader(descriptor)
        finally:
            os.close(descriptor)

    async def end(self, grace_seconds: float, number: int = signal.SIGTERM) -> None:
        """Send *number*, and SIGKILL after the grace; return once it has ended."""
        if grace_seconds > 0 and self.send(number):
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(grace_seconds):
                    await self.ended()
        if self.send(signal.SIGKILL):
            await self.ended()


def boot_id() -> str:
    """Return what tells this start of the machine from others."""
    return _BOOT


def _start_of(pid: int) -> int | None:
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    fields = stat.rpartition(")")[2].split()  # the name before it may hold anything
    return None if fields[0] in "ZX" else int(fields[19])


_BOOT = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()

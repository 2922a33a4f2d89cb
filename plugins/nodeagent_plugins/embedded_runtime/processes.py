"""Processes that are not children: identification, signals and waiting for their exit."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from pathlib import Path

from nodeagent.base.structs import Struct


class Process(Struct, frozen=True):
    """A process, identified by PID, start time and boot."""

    pid: int
    started: int
    """Clock ticks from the boot of the host to the start of the process."""
    boot: str
    """ID of the boot."""

    @classmethod
    def of(cls, pid: int) -> Process | None:
        """Return the process with the current PID *pid*, or ``None`` if there is none."""
        started = _start_of(pid)
        return None if started is None else cls(pid, started, boot_id())

    @property
    def alive(self) -> bool:
        """Return whether the process is running; a zombie is not."""
        return self.boot == boot_id() and _start_of(self.pid) == self.started

    def send(self, number: int) -> bool:
        """Send a signal; return whether the process existed."""
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
        """Wait until the process has exited."""
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
        """Send *number*, and SIGKILL after the grace period; return once the process has exited."""
        if grace_seconds > 0 and self.send(number):
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(grace_seconds):
                    await self.ended()
        if self.send(signal.SIGKILL):
            await self.ended()


def boot_id() -> str:
    """Return the ID of the current boot."""
    return _BOOT


def _start_of(pid: int) -> int | None:
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    fields = stat.rpartition(")")[2].split()  # The preceding name may contain any characters.
    return None if fields[0] in "ZX" else int(fields[19])


_BOOT = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()

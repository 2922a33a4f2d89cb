"""Has the kernel call back when memory runs short: at a limit of use with cgroup v1, at stalls everywhere else."""

from __future__ import annotations

import asyncio
import contextlib
import os
import select
from collections.abc import Callable
from pathlib import Path

STALLS = Path("/proc/pressure/memory")
_TRIGGER = b"some 100000 2000000\0"
"""Some process waited for memory for a tenth of a second within two; shorter windows are for the privileged."""


class UsageNotification:
    """Calls *crossed* when the memory that a cgroup of v1 uses crosses *limit*, up or down; while in a ``with``.

    :raises OSError: on entering, the kernel does not notify.
    """

    def __init__(self, cgroup: Path, limit: int, crossed: Callable[[], None]) -> None:
        self._cgroup, self._limit, self._crossed = cgroup, limit, crossed
        self._event = -1

    def __enter__(self) -> UsageNotification:
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


class StallNotification:
    """Calls *stalled* when processes wait for memory, at most once in two seconds; while in a ``with``.

    :param file: a file of pressure stall information.
    :raises OSError: on entering, the kernel does not notify.
    """

    def __init__(self, file: Path, stalled: Callable[[], None]) -> None:
        self._name, self._stalled = file, stalled
        self._file = -1
        self._epoll: select.epoll | None = None

    def __enter__(self) -> StallNotification:
        self._file = os.open(self._name, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            os.write(self._file, _TRIGGER)
            self._epoll = select.epoll()
            # The kernel signals urgent data, which loops do not wait for: they wait for who does.
            self._epoll.register(self._file, select.EPOLLPRI)
            asyncio.get_running_loop().add_reader(self._epoll.fileno(), self._happened)
        except BaseException:
            if self._epoll is not None:
                self._epoll.close()
            os.close(self._file)
            raise
        return self

    def __exit__(self, *_: object) -> None:
        if self._epoll is not None:
            asyncio.get_running_loop().remove_reader(self._epoll.fileno())
            self._epoll.close()
        os.close(self._file)

    def _happened(self) -> None:
        assert self._epoll is not None, "called while entered"
        if any(events & select.EPOLLERR for _, events in self._epoll.poll(0)):
            self._epoll.unregister(self._file)  # its cgroup is gone: it would be told for ever
            return
        self._stalled()

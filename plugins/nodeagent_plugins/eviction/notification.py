"""Kernel notifications of memory pressure: usage limits on cgroup v1, stalls on v2."""

from __future__ import annotations

import asyncio
import contextlib
import os
import select
from collections.abc import Callable
from pathlib import Path

STALLS = Path("/proc/pressure/memory")
_TRIGGER = b"some 100000 2000000\0"
"""Stall of 100 ms within two seconds; shorter windows require privileges."""


class UsageNotification:
    """Context manager that calls *crossed* when the memory usage of a v1 cgroup crosses *limit* in either direction.

    :raises OSError: on entering, the kernel does not support the notification.
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
    """Context manager that calls *stalled* when processes stall on memory, at most once every two seconds.

    :param file: a pressure stall information file.
    :raises OSError: on entering, the kernel does not support the notification.
    """

    def __init__(self, file: Path, stalled: Callable[[], None]) -> None:
        self._name, self._stalled = file, stalled
        self._opened = contextlib.ExitStack()

    def __enter__(self) -> StallNotification:
        with contextlib.ExitStack() as opened:
            file = os.open(self._name, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
            opened.callback(os.close, file)
            os.write(file, _TRIGGER)
            epoll = opened.enter_context(select.epoll())
            # The kernel signals EPOLLPRI, which event loops cannot wait for; they wait for an epoll descriptor instead.
            epoll.register(file, select.EPOLLPRI)
            loop = asyncio.get_running_loop()
            loop.add_reader(epoll.fileno(), self._happened, epoll, file)
            opened.callback(loop.remove_reader, epoll.fileno())
            self._opened = opened.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._opened.close()

    def _happened(self, epoll: select.epoll, file: int) -> None:
        if any(events & select.EPOLLERR for _, events in epoll.poll(0)):
            epoll.unregister(file)  # The cgroup was removed, and the event would repeat forever.
            return
        self._stalled()

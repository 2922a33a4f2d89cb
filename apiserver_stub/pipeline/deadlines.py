"""Deadlines of requests.

One timer checks all of them a few times per second: a timer per request costs more than most of a short request, and
a tenth of a second matters to no client.
"""

from __future__ import annotations

import asyncio
from functools import cached_property
from types import TracebackType

_CHECK_SECONDS = 0.1


class Deadlines:
    """Deadlines of the requests in flight."""

    def __init__(self) -> None:
        self._running: dict[_Deadline, None] = {}
        """In the order of their start."""
        self._is_scheduled = False

    def after(self, seconds: float) -> _Deadline:
        """Return a context manager that cancels its task *seconds* from now, or up to a tenth of a second later.

        It then raises :class:`TimeoutError`, like :func:`asyncio.timeout`.
        """
        return _Deadline(self, seconds)

    @cached_property
    def loop(self) -> asyncio.AbstractEventLoop:
        """The event loop; cached, since the interpreter calls the kernel to determine it."""
        return asyncio.get_running_loop()

    def add(self, deadline: _Deadline) -> None:
        """Check *deadline* until :meth:`remove`."""
        self._running[deadline] = None
        if not self._is_scheduled:
            self._is_scheduled = True
            self.loop.call_later(_CHECK_SECONDS, self._check)

    def remove(self, deadline: _Deadline) -> None:
        self._running.pop(deadline, None)

    def _check(self) -> None:
        loop = self.loop
        now = loop.time()
        for deadline in [item for item in self._running if item.due_at <= now]:
            del self._running[deadline]
            deadline.expire()
        self._is_scheduled = bool(self._running)
        if self._is_scheduled:
            loop.call_later(_CHECK_SECONDS, self._check)


class _Deadline:
    __slots__ = ("_cancelling", "_expired", "_seconds", "_shared", "_task", "due_at")

    def __init__(self, shared: Deadlines, seconds: float) -> None:
        self._shared, self._seconds = shared, seconds
        self._expired = False

    def __enter__(self) -> None:
        loop = self._shared.loop
        task = asyncio.current_task(loop)
        if task is None:
            raise RuntimeError("only a task can be ended")
        self._task, self._cancelling = task, task.cancelling()
        self.due_at = loop.time() + self._seconds
        self._shared.add(self)

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        self._shared.remove(self)
        if self._expired and self._task.uncancel() <= self._cancelling and kind is asyncio.CancelledError:
            raise TimeoutError from error

    def expire(self) -> None:
        self._expired = True
        self._task.cancel()

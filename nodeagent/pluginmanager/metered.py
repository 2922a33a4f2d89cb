"""Coroutine of a plugin whose steps are measured, and which can be terminated if it ignores its cancellation."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine, Generator
from typing import Any


class PluginAborted(Exception):
    """A plugin was interrupted, or raised an exception that would terminate the agent, such as ``SystemExit``."""


class EventLoopBlocked(BaseException):
    """Raised in a plugin that blocks the event loop; not an ``Exception``, since plugins catch those."""


class MeteredCoroutine:
    """Awaitable that runs a coroutine step by step and measures the steps, not the time in between.

    :param running: called with this object before each step, and with ``None`` after it.
    """

    __slots__ = ("_coroutine", "_running", "_terminating", "cpu_seconds", "longest_step_seconds", "owner")

    def __init__(
        self,
        coroutine: Coroutine[Any, Any, Any],
        owner: object,
        running: Callable[[MeteredCoroutine | None], None],
    ) -> None:
        self._coroutine, self._running, self._terminating = coroutine, running, False
        self.owner = owner
        self.cpu_seconds = 0.0
        """CPU time of the thread in all steps so far."""
        self.longest_step_seconds = 0.0
        """Longest time for which the coroutine occupied the event loop."""

    def terminate(self) -> None:
        """Make the next cancellation close the coroutine, which can catch ``CancelledError`` but cannot continue."""
        self._terminating = True

    def __await__(self) -> Generator[Any, Any, Any]:
        coroutine, error = self._coroutine, None
        while True:
            try:
                awaited = self._step(error)
            except StopIteration as stop:
                return stop.value
            except EventLoopBlocked as raised:
                raise PluginAborted(str(raised)) from raised
            except (asyncio.CancelledError, Exception):
                raise
            except BaseException as raised:
                raise PluginAborted(f"raised {raised!r}") from raised
            error = None
            try:
                yield awaited
            except GeneratorExit:
                coroutine.close()
                raise
            except BaseException as raised:
                if self._terminating:
                    coroutine.close()
                    raise
                error = raised

    def _step(self, error: BaseException | None) -> Any:
        cpu, started = time.thread_time(), time.monotonic()
        self._running(self)
        try:
            return self._coroutine.send(None) if error is None else self._coroutine.throw(error)
        finally:
            self._running(None)
            self.cpu_seconds += time.thread_time() - cpu
            self.longest_step_seconds = max(self.longest_step_seconds, time.monotonic() - started)

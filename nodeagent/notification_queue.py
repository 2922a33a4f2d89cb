"""Notification of plugins in order, without delaying the notifier."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import deque
from typing import Generic, TypeVar

from nodeagent.base.aio import TaskOwner
from nodeagent.pluginmanager import PluginManager

QUEUE_LENGTH = 1000

_log = logging.getLogger(__name__)
_T = TypeVar("_T")


class NotificationQueue(Generic[_T]):
    """Calls a notification hook for each value, one at a time.

    The latest :data:`QUEUE_LENGTH` values are queued for a slow plugin.

    :param hook: the name of the hook.
    :param argument: the name of its argument.
    """

    def __init__(self, plugins: PluginManager, tasks: TaskOwner, hook: str, argument: str) -> None:
        self._plugins, self._tasks, self._hook, self._argument = plugins, tasks, hook, argument
        self._queue: deque[_T] = deque(maxlen=QUEUE_LENGTH)
        self._task: asyncio.Task[None] | None = None
        self._overflowed = False

    @property
    def needed(self) -> bool:
        """True if a plugin implements the hook, so that a notifier can skip preparing the values."""
        return self._plugins.is_implemented(self._hook)

    def put(self, value: _T) -> None:
        """Queue *value*; without a plugin that implements the hook, it is dropped."""
        if not self.needed:
            return
        if len(self._queue) == QUEUE_LENGTH and not self._overflowed:
            fields = {"hook": self._hook, "queueLength": QUEUE_LENGTH}
            _log.warning("Dropping the oldest notifications, plugins are too slow", extra=fields)
            self._overflowed = True
        self._queue.append(value)
        if self._task is None or self._task.done():
            with contextlib.suppress(RuntimeError):  # On shutdown, flush() notifies.
                self._task = self._tasks.start(self._notify(), self._hook)

    async def flush(self, seconds: float) -> None:
        """Notify of all queued values, for at most *seconds*."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._notify()

    async def _notify(self) -> None:
        while self._queue:
            await self._plugins.notify(self._hook, **{self._argument: self._queue.popleft()})
        self._overflowed = False

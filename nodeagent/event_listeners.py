"""Event notification: forward recorded events to plugins without delaying the recorder."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import deque
from collections.abc import Mapping

from nodeagent.base.aio import TaskOwner
from nodeagent.contracts.events import EventRecorder, EventType, RecordedEvent
from nodeagent.model.meta import ObjectReference
from nodeagent.pluginmanager import PluginManager

QUEUE_LENGTH = 1000
_HOOK = "nodeagent_event_recorded"

_log = logging.getLogger(__name__)


class EventListeners:
    """An :class:`~nodeagent.contracts.events.EventRecorder` that forwards events and notifies plugins of each.

    Plugins are notified asynchronously; the latest :data:`QUEUE_LENGTH` events are queued for a slow plugin.
    """

    def __init__(self, recorder: EventRecorder, plugins: PluginManager, tasks: TaskOwner) -> None:
        self._recorder, self._plugins, self._tasks = recorder, plugins, tasks
        self._queue: deque[RecordedEvent] = deque(maxlen=QUEUE_LENGTH)
        self._task: asyncio.Task[None] | None = None
        self._overflowed = False

    def record(
        self,
        regarding: ObjectReference,
        type: EventType,
        reason: str,
        note: str,
        *,
        action: str = "",
        related: ObjectReference | None = None,
        annotations: Mapping[str, str] | None = None,
    ) -> None:
        self._recorder.record(regarding, type, reason, note, action=action, related=related, annotations=annotations)
        if not self._plugins.is_implemented(_HOOK):
            return
        if len(self._queue) == QUEUE_LENGTH and not self._overflowed:
            _log.warning("Dropping the oldest events, plugins are too slow", extra={"queueLength": QUEUE_LENGTH})
            self._overflowed = True
        self._queue.append(RecordedEvent(regarding, type, reason, note, action, related, annotations))
        if self._task is None or self._task.done():
            with contextlib.suppress(RuntimeError):  # On shutdown, flush() sends the queue.
                self._task = self._tasks.start(self._notify(), "event-listeners")

    async def flush(self, timeout_seconds: float) -> None:
        await asyncio.gather(self._recorder.flush(timeout_seconds), self._flush_queue(timeout_seconds))

    async def _flush_queue(self, seconds: float) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._notify()

    async def _notify(self) -> None:
        while self._queue:
            await self._plugins.notify(_HOOK, event=self._queue.popleft())
        self._overflowed = False

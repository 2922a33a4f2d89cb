"""Tells plugins of events, behind the back of whoever records them."""

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

WAITING = 1000
_HOOK = "nodeagent_event_recorded"

_log = logging.getLogger(__name__)


class EventListeners:
    """An :class:`~nodeagent.contracts.events.EventRecorder` that passes events on, and announces each to plugins.

    Nobody waits for a listener: events wait for it, the newest :data:`WAITING` of them.
    """

    def __init__(self, recorder: EventRecorder, plugins: PluginManager, tasks: TaskOwner) -> None:
        self._recorder, self._plugins, self._tasks = recorder, plugins, tasks
        self._waiting: deque[RecordedEvent] = deque(maxlen=WAITING)
        self._task: asyncio.Task[None] | None = None
        self._late = False

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
        if len(self._waiting) == WAITING and not self._late:
            _log.warning("Plugins are too slow for the events: the oldest go untold", extra={"waiting": WAITING})
            self._late = True
        self._waiting.append(RecordedEvent(regarding, type, reason, note, action, related, annotations))
        if self._task is None or self._task.done():
            with contextlib.suppress(RuntimeError):  # the agent ends: they are told by flush
                self._task = self._tasks.start(self._tell(), "event-listeners")

    async def flush(self, timeout_seconds: float) -> None:
        await asyncio.gather(self._recorder.flush(timeout_seconds), self._tell_rest(timeout_seconds))

    async def _tell_rest(self, seconds: float) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._tell()

    async def _tell(self) -> None:
        while self._waiting:
            await self._plugins.notify(_HOOK, event=self._waiting.popleft())
        self._late = False

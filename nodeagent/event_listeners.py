"""Event notification: forward recorded events to plugins without delaying the recorder."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from nodeagent.base.aio import TaskOwner
from nodeagent.contracts.events import EventRecorder, EventType, RecordedEvent
from nodeagent.model.meta import ObjectReference
from nodeagent.notification_queue import NotificationQueue
from nodeagent.pluginmanager import PluginManager


class EventListeners:
    """An :class:`~nodeagent.contracts.events.EventRecorder` that forwards events and notifies plugins of each.

    Plugins are notified asynchronously; the latest events are queued for a slow plugin.
    """

    def __init__(self, recorder: EventRecorder, plugins: PluginManager, tasks: TaskOwner) -> None:
        self._recorder = recorder
        self._queue: NotificationQueue[RecordedEvent] = NotificationQueue(
            plugins, tasks, "nodeagent_event_recorded", "event"
        )

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
        if self._queue.needed:
            self._queue.put(RecordedEvent(regarding, type, reason, note, action, related, annotations))

    async def flush(self, timeout_seconds: float) -> None:
        await asyncio.gather(self._recorder.flush(timeout_seconds), self._queue.flush(timeout_seconds))

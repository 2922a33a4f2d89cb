"""Fake event recorder."""

from __future__ import annotations

from collections.abc import Mapping

from nodeagent.contracts.events import EventType, RecordedEvent
from nodeagent.model.meta import ObjectReference


class FakeRecorder:
    """An :class:`~nodeagent.contracts.events.EventRecorder` that stores all events, in order."""

    def __init__(self) -> None:
        self.events: list[RecordedEvent] = []

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
        self.events.append(RecordedEvent(regarding, type, reason, note, action, related, annotations))

    async def flush(self, timeout_seconds: float) -> None:
        return None

    def reasons(self) -> list[str]:
        """Return the reasons of the events, in order."""
        return [event.reason for event in self.events]

    def of(self, reason: str) -> list[RecordedEvent]:
        """Return the events with *reason*."""
        return [event for event in self.events if event.reason == reason]

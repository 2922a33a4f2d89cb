"""Contracts for Kubernetes events."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Protocol

from nodeagent.base.structs import Struct
from nodeagent.model.meta import ObjectReference


class EventType(StrEnum):
    """Type of an event."""

    NORMAL = "Normal"
    WARNING = "Warning"


class RecordedEvent(Struct, frozen=True):
    """An event as recorded, before aggregation and rate limiting."""

    regarding: ObjectReference
    type: EventType
    reason: str
    note: str
    action: str = ""
    related: ObjectReference | None = None
    annotations: Mapping[str, str] | None = None


class EventRecorder(Protocol):
    """Records events without blocking and without raising exceptions.

    spec: config.eventRecordQPS, config.eventBurst
    """

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
        """Record an event about *regarding*; equal events are aggregated into a series.

        :param regarding: the object of the event.
        :param type: ``Normal`` or ``Warning``.
        :param reason: CamelCase reason, such as ``BackOff``.
        :param note: message for users.
        :param action: the action that was taken, in CamelCase; may be empty.
        :param related: a secondary object.
        :param annotations: structured details for clients; a series keeps those of its first event.
        """
        ...

    async def flush(self, timeout_seconds: float) -> None:
        """Send queued events within the time limit; called on shutdown. Never raises.

        :param timeout_seconds: time limit in seconds; events that remain are dropped.
        """
        ...

"""Telling people what happened (Events)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from nodeagent.model.meta import ObjectReference


class EventType(StrEnum):
    NORMAL = "Normal"
    WARNING = "Warning"


@dataclass(frozen=True, slots=True)
class RecordedEvent:
    """Something that happened, as it was recorded: before equal ones are folded and before rates."""

    regarding: ObjectReference
    type: EventType
    reason: str
    note: str
    action: str = ""
    related: ObjectReference | None = None
    annotations: Mapping[str, str] | None = None


class EventRecorder(Protocol):
    """Records events; recording never waits and never raises.

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
        """Record that something happened to *regarding*; equal ones are folded into a series.

        :param annotations: facts for programs; a series keeps those of its first event.
        """
        ...

    async def flush(self, timeout_seconds: float) -> None:
        """Send what waits, within the limit; used at stop."""
        ...

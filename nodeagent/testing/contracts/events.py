"""Contract tests for event recorders."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence

import pytest

from nodeagent.contracts.events import EventRecorder, EventType
from nodeagent.model.meta import ObjectReference
from nodeagent.testing.pods import make_pod

EmittedReasons = Callable[[], Awaitable[Sequence[str]]]
_FLUSH_SECONDS = 5.0


class EventRecorderContract:
    """Contract of :class:`EventRecorder`. Override the fixtures ``recorder`` and ``emitted``."""

    @pytest.fixture
    async def recorder(self) -> AsyncIterator[EventRecorder]:
        """The implementation to test, without recorded events."""
        raise NotImplementedError
        yield

    @pytest.fixture
    def emitted(self) -> EmittedReasons:
        """Function that waits until the recorder is idle, then returns the reasons of all emitted events."""
        raise NotImplementedError

    @pytest.fixture
    def pod(self) -> ObjectReference:
        """The object that the events regard."""
        return make_pod("contract").reference()

    async def test_events_are_emitted_in_order(
        self, recorder: EventRecorder, emitted: EmittedReasons, pod: ObjectReference
    ) -> None:
        recorder.record(pod, EventType.NORMAL, "Started", "started", action="Starting")
        recorder.record(pod, EventType.WARNING, "Failed", "failed", related=pod, annotations={"a": "b"})
        assert list(await emitted()) == ["Started", "Failed"]

    async def test_flush_is_possible_at_any_time(
        self, recorder: EventRecorder, emitted: EmittedReasons, pod: ObjectReference
    ) -> None:
        await recorder.flush(_FLUSH_SECONDS)
        recorder.record(pod, EventType.NORMAL, "Started", "started")
        assert list(await emitted()) == ["Started"]
        await recorder.flush(_FLUSH_SECONDS)
        assert list(await emitted()) == ["Started"]

    async def test_recording_unusual_events_does_not_raise(
        self, recorder: EventRecorder, emitted: EmittedReasons, pod: ObjectReference
    ) -> None:
        recorder.record(ObjectReference(), EventType.NORMAL, "Odd", "")
        recorder.record(pod, EventType.WARNING, "Odd", "x" * 100_000)
        for number in range(1000):
            recorder.record(pod, EventType.NORMAL, "Many", f"note {number}")
        await emitted()

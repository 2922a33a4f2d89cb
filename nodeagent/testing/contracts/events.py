"""What everything that records events does."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence

import pytest

from nodeagent.contracts.events import EventRecorder, EventType
from nodeagent.model.meta import ObjectReference
from nodeagent.testing.pods import make_pod

Told = Callable[[], Awaitable[Sequence[str]]]
_FLUSH_SECONDS = 5.0


class EventRecorderContract:
    """Fixtures to provide: ``recorder`` and ``told``."""

    @pytest.fixture
    async def recorder(self) -> AsyncIterator[EventRecorder]:
        """The implementation; nothing is recorded yet."""
        raise NotImplementedError
        yield

    @pytest.fixture
    def told(self) -> Told:
        """Return a function that lets the recorder do its work, then returns the reasons of what came out."""
        raise NotImplementedError

    @pytest.fixture
    def pod(self) -> ObjectReference:
        """What the events are about."""
        return make_pod("contract").reference()

    async def test_what_is_recorded_comes_out_in_order(
        self, recorder: EventRecorder, told: Told, pod: ObjectReference
    ) -> None:
        recorder.record(pod, EventType.NORMAL, "Started", "started", action="Starting")
        recorder.record(pod, EventType.WARNING, "Failed", "failed", related=pod, annotations={"a": "b"})
        assert list(await told()) == ["Started", "Failed"]

    async def test_flushing_is_possible_at_any_time(
        self, recorder: EventRecorder, told: Told, pod: ObjectReference
    ) -> None:
        await recorder.flush(_FLUSH_SECONDS)
        recorder.record(pod, EventType.NORMAL, "Started", "started")
        assert list(await told()) == ["Started"]
        await recorder.flush(_FLUSH_SECONDS)
        assert list(await told()) == ["Started"]

    async def test_recording_never_raises_whatever_is_recorded(
        self, recorder: EventRecorder, told: Told, pod: ObjectReference
    ) -> None:
        recorder.record(ObjectReference(), EventType.NORMAL, "Odd", "")
        recorder.record(pod, EventType.WARNING, "Odd", "x" * 100_000)
        for number in range(1000):
            recorder.record(pod, EventType.NORMAL, "Many", f"note {number}")
        await told()

"""Tests for the event recorder of controllers."""

from __future__ import annotations

import tracemalloc
from typing import Any

import pytest

from apiserver_stub.controllers.event_recorder import SERIES_SECONDS, EventRecorder
from apiserver_stub.storage import StoreUnavailable
from nodeagent.base.identity import Identity
from nodeagent.testing import FakeClock
from tests.unit.apiserver_stub.controllers.harness import MeteredStore, rest, running, store

__all__ = ["store"]

EVENTS = "core/events"
POD = {
    "kind": "Pod",
    "apiVersion": "v1",
    "metadata": {"name": "web", "namespace": "n", "uid": "u", "resourceVersion": "7"},
}


def events(store: MeteredStore) -> list[Any]:
    return [store.read(EVENTS, record.key) for record in store.collection(EVENTS).select()]


async def test_event_is_written_in_the_form_of_the_events_group(store: MeteredStore, clock: FakeClock) -> None:
    recorder = EventRecorder(store, "default-scheduler", 3600, Identity(), clock)
    async with running(store, recorder.run()):
        recorder.record(POD, "Warning", "FailedScheduling", "Scheduling", "no room")
        await rest(store)

    (event,) = events(store)
    assert event["apiVersion"] == "events.k8s.io/v1"
    assert event["metadata"]["name"].startswith("web.")
    assert event["regarding"] == {
        "kind": "Pod",
        "apiVersion": "v1",
        "namespace": "n",
        "name": "web",
        "uid": "u",
        "resourceVersion": "7",
    }
    shown = {name: event[name] for name in ("type", "reason", "action", "note", "reportingController")}
    assert shown == {
        "type": "Warning",
        "reason": "FailedScheduling",
        "action": "Scheduling",
        "note": "no room",
        "reportingController": "default-scheduler",
    }
    assert event["reportingInstance"].startswith("default-scheduler-")
    assert "series" not in event


async def test_repeated_event_becomes_a_series_that_is_rarely_written(store: MeteredStore, clock: FakeClock) -> None:
    recorder = EventRecorder(store, "default-scheduler", 3600, Identity(), clock)
    async with running(store, recorder.run()):
        for _ in range(300):
            recorder.record(POD, "Warning", "FailedScheduling", "Scheduling", "no room")
            await clock.advance(10)

    (event,) = events(store)
    assert event["series"]["count"] > 200
    assert store.writes <= 11


async def test_event_after_a_quiet_period_is_new(store: MeteredStore, clock: FakeClock) -> None:
    recorder = EventRecorder(store, "default-scheduler", 3600, Identity(), clock)
    async with running(store, recorder.run()):
        for _ in range(2):
            recorder.record(POD, "Warning", "FailedScheduling", "Scheduling", "no room")
            await clock.advance(1000)
        recorder.record(POD, "Warning", "FailedScheduling", "Scheduling", "other reason")
        await clock.advance(1)

    assert len(events(store)) == 3


async def test_events_about_deleted_objects_are_dropped(store: MeteredStore, clock: FakeClock) -> None:
    recorder = EventRecorder(store, "default-scheduler", 3600, Identity(), clock)
    notes = (f"{number}: " + "no room " * 100 for number in range(500))
    tracemalloc.start()
    try:
        while (note := next(notes, None)) is not None:
            recorder.record(POD, "Warning", "FailedScheduling", "Scheduling", note)
        recorder._pending.clear()
        retained, _ = tracemalloc.get_traced_memory()
        await clock.advance(1000)
        recorder.record(POD, "Warning", "FailedScheduling", "Scheduling", "other reason")
        left, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert left < retained / 4


async def test_ended_series_are_dropped_without_further_events(store: MeteredStore, clock: FakeClock) -> None:
    recorder = EventRecorder(store, "default-scheduler", 3600, Identity(), clock)
    async with running(store, recorder.run()):
        for number in range(100):
            recorder.record(POD, "Warning", "FailedScheduling", "Scheduling", f"no room {number}")
        await rest(store)
        await clock.advance(SERIES_SECONDS + 1)
        await rest(store)

        assert not recorder._series
    assert len(events(store)) == 100


async def test_long_note_is_truncated(store: MeteredStore, clock: FakeClock) -> None:
    recorder = EventRecorder(store, "default-scheduler", 3600, Identity(), clock)
    async with running(store, recorder.run()):
        recorder.record(POD, "Warning", "FailedScheduling", "Scheduling", "ä" * 1000)
        await rest(store)

    (event,) = events(store)
    assert len(event["note"].encode()) <= 1024
    assert event["note"].endswith("ä ...")


async def test_failed_write_does_not_stop_the_recorder(store: MeteredStore, clock: FakeClock) -> None:
    def fail(name: str, key: str) -> None:
        raise StoreUnavailable("disk full")

    recorder = EventRecorder(store, "default-scheduler", 3600, Identity(), clock)
    async with running(store, recorder.run()):
        store.before_update = fail
        recorder.record(POD, "Warning", "FailedScheduling", "Scheduling", "lost")
        await rest(store)
        store.before_update = None
        recorder.record(POD, "Normal", "Scheduled", "Binding", "written")
        await rest(store)

    assert [event["note"] for event in events(store)] == ["written"]


async def test_pending_events_are_bounded(store: MeteredStore, clock: FakeClock) -> None:
    recorder = EventRecorder(store, "default-scheduler", 3600, Identity(), clock)
    for number in range(5000):
        recorder.record(POD, "Warning", "FailedScheduling", "Scheduling", f"reason {number}")
    async with running(store, recorder.run()):
        await rest(store)

    assert len(store.collection(EVENTS)) == 1000


def recorder(store: MeteredStore, clock: FakeClock) -> EventRecorder:
    return EventRecorder(store, "test", 3600, Identity(), clock)


@pytest.mark.parametrize(("length", "expected"), [(1024, "x" * 1024), (1025, "x" * 1020 + " ...")])
async def test_long_notes_are_truncated(store: MeteredStore, clock: FakeClock, length: int, expected: str) -> None:
    found = recorder(store, clock)
    found.record(POD, "Normal", "R", "", "x" * length)
    async with running(store, found.run()):
        await rest(store)
    assert [event["note"] for event in events(store)] == [expected]


async def test_events_of_different_objects_are_separate(store: MeteredStore, clock: FakeClock) -> None:
    found = recorder(store, clock)
    node = {"kind": "Node", "apiVersion": "v1", "metadata": {"name": "n"}}
    other = {**POD, "metadata": {**POD["metadata"], "uid": "other"}}
    for regarding in (POD, other, node, {**node, "metadata": {"name": "n", "uid": ""}}):
        found.record(regarding, "Normal", "R", "", "note")
    async with running(store, found.run()):
        await rest(store)
    regarding = [(event["metadata"]["namespace"], event["regarding"].get("uid")) for event in events(store)]
    assert sorted(regarding, key=str) == [("default", None), ("n", "other"), ("n", "u")]


@pytest.mark.parametrize(("seconds", "count"), [(SERIES_SECONDS, 2), (SERIES_SECONDS + 0.5, 3)])
async def test_series_ends_without_an_event_in_its_time(
    store: MeteredStore, clock: FakeClock, seconds: float, count: int
) -> None:
    found = recorder(store, clock)
    async with running(store, found.run()):
        found.record(POD, "Normal", "R", "", "note")
        await clock.advance(seconds)
        found.record(POD, "Normal", "R", "", "another note")
        found.record(POD, "Normal", "R", "", "note")
        await rest(store)
    assert len(events(store)) == count


async def test_series_is_written_again_after_its_time(store: MeteredStore, clock: FakeClock) -> None:
    found, counts = recorder(store, clock), []
    async with running(store, found.run()):
        for seconds in (0, 0, 200, SERIES_SECONDS - 200):
            await clock.advance(seconds)
            found.record(POD, "Normal", "R", "", "note")
            await rest(store)
            (event,) = events(store)
            counts.append(event.get("series", {}).get("count"))
    assert counts == [None, 2, 2, 4]

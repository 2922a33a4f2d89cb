"""Events reach the server once each, repeats as a series, within the configured rate, and survive an outage."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from datetime import datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest

from nodeagent.apiclient import Client
from nodeagent.base.aio import TaskOwner
from nodeagent.contracts.api import CORE_EVENTS, EVENTS
from nodeagent.contracts.events import EventType
from nodeagent.errors import ApiError, ApiNotFound, ApiUnavailable
from nodeagent.model.meta import ObjectReference
from nodeagent.testing import FakeApi, FakeClock, make_pod
from nodeagent.testing.context import make_config, make_context
from nodeagent.testing.plugins import load_plugin
from nodeagent.testing.transport import FakeTransport
from nodeagent_plugins import event_recorder
from nodeagent_plugins.event_recorder.ledger import Ledger
from nodeagent_plugins.event_recorder.log import LogRecorder
from nodeagent_plugins.event_recorder.recorder import ApiRecorder
from nodeagent_plugins.event_recorder.sink import Sink

NODE = ObjectReference(kind="Node", name="node-1", uid="node-1")
WEB = make_pod("web").reference("spec.containers{web}")


@pytest.fixture
def api(clock: FakeClock) -> FakeApi:
    return FakeApi(clock)


@pytest.fixture
async def tasks() -> AsyncIterator[TaskOwner]:
    async with TaskOwner("test") as owner:
        yield owner


MakeRecorder = Callable[..., ApiRecorder]


@pytest.fixture
def make(api: FakeApi, clock: FakeClock, tasks: TaskOwner) -> MakeRecorder:
    def recorder(capacity: int = 100) -> ApiRecorder:
        return ApiRecorder(Sink(api, "node-1"), Ledger(clock, capacity), clock, tasks)

    return recorder


def notes(api: FakeApi) -> list[str]:
    return [event["note"] for event in api.all(EVENTS)]


# --- what is told ---------------------------------------------------------------------------------------------


async def test_an_event_is_told_at_once(make: MakeRecorder, api: FakeApi, clock: FakeClock) -> None:
    make().record(WEB, EventType.WARNING, "BackOff", "Back-off restarting", related=NODE)

    await clock.advance(0)

    (event,) = api.all(EVENTS)
    assert event["metadata"]["namespace"] == "default"
    assert event["metadata"]["name"].startswith("web.")
    assert event["eventTime"] == "2024-01-02T15:04:05.000000Z"
    assert event["regarding"]["fieldPath"] == "spec.containers{web}"
    assert event["related"]["kind"] == "Node"
    assert (event["type"], event["reason"], event["note"]) == ("Warning", "BackOff", "Back-off restarting")
    assert (event["reportingController"], event["reportingInstance"]) == ("kubelet", "node-1")
    assert event["action"] == "BackOff"
    assert "series" not in event


async def test_facts_for_programs_are_annotations_of_the_event(
    make: MakeRecorder, api: FakeApi, clock: FakeClock
) -> None:
    make().record(WEB, EventType.WARNING, "Evicted", "Low on memory", annotations={"starved_resource": "memory"})

    await clock.advance(0)

    (event,) = api.all(EVENTS)
    assert event["metadata"]["annotations"] == {"starved_resource": "memory"}


async def test_an_event_about_the_node_goes_to_the_default_namespace(
    make: MakeRecorder, api: FakeApi, clock: FakeClock
) -> None:
    make().record(NODE, EventType.NORMAL, "Starting", "Starting kubelet.", action="Start")

    await clock.advance(0)

    (event,) = api.all(EVENTS)
    assert (event["metadata"]["namespace"], event["action"]) == ("default", "Start")


async def test_a_long_note_is_cut_within_a_character(make: MakeRecorder, api: FakeApi, clock: FakeClock) -> None:
    make().record(WEB, EventType.NORMAL, "Pulled", "é" * 2000)

    await clock.advance(0)

    (note,) = notes(api)
    assert 1000 < len(note.encode()) <= 1024


async def test_equal_events_become_one_series(make: MakeRecorder, api: FakeApi, clock: FakeClock) -> None:
    recorder = make()
    for _ in range(5):
        recorder.record(WEB, EventType.WARNING, "BackOff", "Back-off restarting")
        await clock.advance(0.1)
    await clock.advance(2)

    (event,) = api.all(EVENTS)
    assert event["series"]["count"] == 5
    assert event["series"]["lastObservedTime"] == "2024-01-02T15:04:05.400000Z"
    assert len(api.made("patch")) == 1


async def test_a_long_series_is_told_now_and_then(make: MakeRecorder, api: FakeApi, clock: FakeClock) -> None:
    recorder = make()
    for _ in range(300):
        recorder.record(WEB, EventType.WARNING, "Unhealthy", "Readiness probe failed")
        await clock.advance(0.2)
    await clock.advance(11)

    (event,) = api.all(EVENTS)
    assert event["series"]["count"] == 300
    assert len(api.made("patch")) < 10


async def test_many_similar_events_become_one(make: MakeRecorder, api: FakeApi, clock: FakeClock) -> None:
    recorder = make()
    for number in range(40):
        recorder.record(WEB, EventType.NORMAL, "Pulled", f"Pulled in {number} ms")
        await clock.advance(0.1)
    await clock.advance(20)

    assert len(api.all(EVENTS)) == 10
    combined = next(event for event in api.all(EVENTS) if "combined" in event["note"])
    assert combined["note"].startswith("(combined from similar events): Pulled in 9 ms")
    assert combined["series"]["count"] == 31


async def test_an_event_that_the_server_forgot_begins_again(make: MakeRecorder, api: FakeApi, clock: FakeClock) -> None:
    recorder = make()
    recorder.record(WEB, EventType.NORMAL, "Pulling", "Pulling image")
    await clock.advance(60)
    api.remove(EVENTS, api.all(EVENTS)[0]["metadata"]["name"])
    recorder.record(WEB, EventType.NORMAL, "Pulling", "Pulling image")
    await clock.advance(5)

    (event,) = api.all(EVENTS)
    assert "series" not in event
    assert datetime.fromisoformat(event["eventTime"]) > datetime.fromisoformat("2024-01-02T15:05:00Z")


# --- servers that grant less ----------------------------------------------------------------------------------


@pytest.mark.parametrize("refusal", [ApiError("forbidden", code=403), ApiNotFound("no such group", code=404)])
async def test_falls_back_to_the_core_group_and_remembers(
    make: MakeRecorder, api: FakeApi, clock: FakeClock, refusal: ApiError
) -> None:
    recorder = make()
    api.fail("create", refusal)
    recorder.record(WEB, EventType.NORMAL, "Started", "Started container")
    recorder.record(WEB, EventType.NORMAL, "Killing", "Stopping container")
    await clock.advance(1)
    recorder.record(WEB, EventType.NORMAL, "Started", "Started container")
    await clock.advance(3)

    assert [request.resource for request in api.made("create")] == [EVENTS, CORE_EVENTS, CORE_EVENTS]
    started = next(event for event in api.all(CORE_EVENTS) if event["reason"] == "Started")
    assert (started["message"], started["count"]) == ("Started container", 2)
    assert started["involvedObject"]["name"] == "web"
    assert started["source"] == {"component": "kubelet", "host": "node-1"}
    assert started["lastTimestamp"] > started["firstTimestamp"]


async def test_similar_events_in_the_core_group_show_what_the_last_one_said(
    make: MakeRecorder, api: FakeApi, clock: FakeClock
) -> None:
    recorder = make()
    api.fail("create", ApiError("forbidden", code=403))
    for number in range(40):
        recorder.record(WEB, EventType.WARNING, "Unhealthy", f"Readiness probe failed: attempt {number}")
        await clock.advance(0.1)
    await clock.advance(20)

    (combined,) = [event for event in api.all(CORE_EVENTS) if "combined" in event["message"]]
    assert combined["count"] == 31
    assert combined["message"] == "(combined from similar events): Readiness probe failed: attempt 39"


async def test_one_refused_namespace_does_not_change_the_form(
    make: MakeRecorder, api: FakeApi, clock: FakeClock
) -> None:
    recorder = make()
    api.fail("create", ApiError("namespace is terminating", code=403), times=2)
    recorder.record(WEB, EventType.NORMAL, "Killing", "Stopping container")
    recorder.record(NODE, EventType.NORMAL, "NodeReady", "ready")
    await clock.advance(1)

    assert notes(api) == ["ready"]
    assert recorder.refused == 1


async def test_a_refused_event_does_not_hold_up_others(make: MakeRecorder, api: FakeApi, clock: FakeClock) -> None:
    recorder = make()
    api.fail("create", ApiError("invalid", code=422))
    recorder.record(WEB, EventType.NORMAL, "A", "a")
    recorder.record(WEB, EventType.NORMAL, "B", "b")
    await clock.advance(1)

    assert notes(api) == ["b"]


async def test_an_event_the_server_always_fails_at_is_given_up(
    make: MakeRecorder, api: FakeApi, clock: FakeClock
) -> None:
    recorder = make()
    api.fail("create", ApiError("internal", code=500, transient=True), times=None)
    recorder.record(WEB, EventType.NORMAL, "A", "a")
    await clock.advance(600)

    assert len(api.made("create")) == 12
    assert recorder.refused == 1


async def test_an_answer_that_was_lost_does_not_double_the_event(
    make: MakeRecorder, api: FakeApi, clock: FakeClock
) -> None:
    recorder = make()
    recorder.record(WEB, EventType.NORMAL, "A", "a")
    api.hang("create")
    await clock.advance(0)
    stored = api.made("create")[0]
    api.put(EVENTS, stored.body, "default")
    api.fail("create", ApiUnavailable("reset"))
    api.recover("create")
    await clock.advance(30)

    assert notes(api) == ["a"]


# --- outages and floods ---------------------------------------------------------------------------------------


async def test_nothing_is_lost_while_the_server_is_away(
    make: MakeRecorder, api: FakeApi, clock: FakeClock, caplog: pytest.LogCaptureFixture
) -> None:
    recorder = make()
    api.outage = True
    for number in range(5):
        recorder.record(WEB, EventType.NORMAL, f"Reason{number}", "note")
        await clock.advance(6)
    for _ in range(3):
        recorder.record(WEB, EventType.WARNING, "BackOff", "again")
    api.outage = False
    await clock.advance(20)

    assert len(api.all(EVENTS)) == 6
    assert next(event for event in api.all(EVENTS) if event["reason"] == "BackOff")["series"]["count"] == 3
    order = [event["reason"] for event in api.all(EVENTS)]
    assert order.index("Reason4") < order.index("Reason1")
    assert [record.levelno for record in caplog.records].count(logging.WARNING) == 1


async def test_a_flood_drops_repeats_of_normal_events_only(make: MakeRecorder, api: FakeApi, clock: FakeClock) -> None:
    recorder = make(capacity=20)
    for number in range(10):
        recorder.record(WEB, EventType.NORMAL, f"Normal{number}", "n")
        recorder.record(WEB, EventType.WARNING, f"Warning{number}", "w")
    await clock.advance(1)
    api.outage = True
    for number in range(10):
        recorder.record(WEB, EventType.NORMAL, f"Normal{number}", "n")
        recorder.record(WEB, EventType.WARNING, f"Warning{number}", "w")
    for number in range(10):
        recorder.record(WEB, EventType.NORMAL, f"Later{number}", "l")
    dropped = recorder.dropped
    api.outage = False
    await clock.advance(60)

    events = {event["reason"]: event for event in api.all(EVENTS)}
    assert dropped == 10
    assert all("series" not in events[f"Normal{number}"] for number in range(10))
    assert all(events[f"Warning{number}"]["series"]["count"] == 2 for number in range(10))
    assert all(f"Later{number}" in events for number in range(10))


async def test_drops_are_logged_once_when_they_begin(
    make: MakeRecorder, api: FakeApi, clock: FakeClock, caplog: pytest.LogCaptureFixture
) -> None:
    recorder = make(capacity=5)
    api.outage = True
    for number in range(50):
        recorder.record(WEB, EventType.NORMAL, f"Reason{number}", "n")

    assert recorder.dropped == 45
    assert [record.message for record in caplog.records].count("Too many events: old repeats are dropped") == 1


# --- the end --------------------------------------------------------------------------------------------------


async def test_flush_tells_what_waits(make: MakeRecorder, api: FakeApi, clock: FakeClock, tasks: TaskOwner) -> None:
    recorder = make()
    recorder.record(WEB, EventType.NORMAL, "A", "a")
    await clock.advance(0)
    recorder.record(WEB, EventType.NORMAL, "A", "a")
    await tasks.close()
    recorder.record(WEB, EventType.NORMAL, "B", "b")

    await recorder.flush(5)

    assert {event["reason"]: event.get("series", {}).get("count") for event in api.all(EVENTS)} == {"A": 2, "B": None}


async def test_flush_tells_what_was_being_told(
    make: MakeRecorder, api: FakeApi, clock: FakeClock, tasks: TaskOwner
) -> None:
    recorder = make()
    api.hang("create")
    recorder.record(WEB, EventType.NORMAL, "A", "a")
    await clock.advance(0)
    await tasks.close()
    api.recover("create")

    await recorder.flush(5)

    assert notes(api) == ["a"]


async def test_flush_gives_up_on_a_server_that_is_away(
    make: MakeRecorder, api: FakeApi, clock: FakeClock, tasks: TaskOwner, caplog: pytest.LogCaptureFixture
) -> None:
    recorder = make()
    api.outage = True
    recorder.record(WEB, EventType.NORMAL, "A", "a")
    await tasks.close()

    await recorder.flush(5)

    assert "Events left untold" in caplog.text


# --- the plugin -----------------------------------------------------------------------------------------------


@pytest.mark.row("config.eventRecordQPS", "config.eventBurst", "card.events")
async def test_keeps_the_configured_rate(tmp_path: Path, clock: FakeClock, tasks: TaskOwner) -> None:
    transport = FakeTransport()
    client = Client(transport, clock)
    config = make_config(event_record_qps=2, event_burst=3)
    context = make_context(tmp_path, clock=clock, config=config, tasks=tasks, new_api=client.with_rate)
    recorder = load_plugin(event_recorder).provide("nodeagent_provide_event_recorder", context=context)
    for number in range(10):
        recorder.record(WEB, EventType.NORMAL, f"Reason{number}", "note")

    await clock.advance(0)
    at_once = len(transport.requests)
    await clock.advance(2)
    later = len(transport.requests)
    await clock.advance(10)

    assert (at_once, later, len(transport.requests)) == (3, 7, 10)


@pytest.mark.row("config.eventRecordQPS")
async def test_a_rate_of_zero_is_no_limit(tmp_path: Path, clock: FakeClock, tasks: TaskOwner) -> None:
    transport = FakeTransport()
    client = Client(transport, clock)
    config = make_config(event_record_qps=0, event_burst=1)
    context = make_context(tmp_path, clock=clock, config=config, tasks=tasks, new_api=client.with_rate)
    recorder = load_plugin(event_recorder).provide("nodeagent_provide_event_recorder", context=context)
    for number in range(20):
        recorder.record(WEB, EventType.NORMAL, f"Reason{number}", "note")

    await clock.advance(0.001)

    assert len(transport.requests) == 20
    sent: dict[str, Any] = msgspec.json.decode(transport.requests[0].body)
    assert (sent["apiVersion"], sent["kind"]) == ("events.k8s.io/v1", "Event")


async def test_hook_provide_event_recorder_logs_on_a_lone_node(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    context = make_context(tmp_path)
    recorder = load_plugin(event_recorder).provide("nodeagent_provide_event_recorder", context=context)

    with caplog.at_level(logging.INFO):
        recorder.record(WEB, EventType.NORMAL, "Started", "Started container web")
        await asyncio.wait_for(recorder.flush(1), 1)

    assert isinstance(recorder, LogRecorder)
    assert [record.reason for record in caplog.records] == ["Started"]  # type: ignore[attr-defined]

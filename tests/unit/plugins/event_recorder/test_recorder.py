"""Tests for the event recorder: core/v1 events, counted repeats, limits and outages of the server."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from nodeagent.apiclient import Client
from nodeagent.base.aio import TaskOwner
from nodeagent.contracts.api import CORE_EVENTS
from nodeagent.contracts.events import EventType
from nodeagent.errors import ApiError, ApiUnavailable
from nodeagent.model.meta import ObjectReference
from nodeagent.testing import FakeApi, FakeClock, make_pod
from nodeagent.testing.context import make_config, make_context
from nodeagent.testing.plugins import load_plugin, notify
from nodeagent.testing.transport import FakeTransport
from nodeagent_plugins import event_recorder
from nodeagent_plugins.event_recorder.aggregator import EventAggregator, Series
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
        return ApiRecorder(Sink(api, "node-1"), EventAggregator(clock, capacity), clock, tasks)

    return recorder


def messages(api: FakeApi) -> list[str]:
    return [event["message"] for event in api.all(CORE_EVENTS)]


def pod_named(name: str) -> ObjectReference:
    return make_pod(name).reference()


def taken(aggregator: EventAggregator) -> Series:
    series = aggregator.take()
    assert series is not None
    return series


# --- what is sent ---------------------------------------------------------------------------------------------


async def test_event_is_sent_immediately(make: MakeRecorder, api: FakeApi, clock: FakeClock) -> None:
    make().record(WEB, EventType.WARNING, "BackOff", "Back-off restarting", related=NODE)

    await clock.advance(0)

    (event,) = api.all(CORE_EVENTS)
    assert event["metadata"]["namespace"] == "default"
    assert event["metadata"]["name"].startswith("web.")
    assert event["involvedObject"]["fieldPath"] == "spec.containers{web}"
    assert event["related"]["kind"] == "Node"
    assert (event["type"], event["reason"], event["message"]) == ("Warning", "BackOff", "Back-off restarting")
    assert event["firstTimestamp"] == event["lastTimestamp"] == "2024-01-02T15:04:05Z"
    assert event["count"] == 1
    assert event["source"] == {"component": "kubelet", "host": "node-1"}
    assert (event["reportingComponent"], event["reportingInstance"]) == ("kubelet", "node-1")
    assert not event.keys() & {"eventTime", "series", "action"}


async def test_details_are_annotations_of_the_event(make: MakeRecorder, api: FakeApi, clock: FakeClock) -> None:
    make().record(WEB, EventType.WARNING, "Evicted", "Low on memory", annotations={"starved_resource": "memory"})

    await clock.advance(0)

    (event,) = api.all(CORE_EVENTS)
    assert event["metadata"]["annotations"] == {"starved_resource": "memory"}


async def test_event_about_the_node_is_in_the_default_namespace(
    make: MakeRecorder, api: FakeApi, clock: FakeClock
) -> None:
    make().record(NODE, EventType.NORMAL, "Starting", "Starting kubelet.", action="Start")

    await clock.advance(0)

    (event,) = api.all(CORE_EVENTS)
    assert (event["metadata"]["namespace"], event["action"]) == ("default", "Start")


async def test_long_note_is_truncated_at_a_character(make: MakeRecorder, api: FakeApi, clock: FakeClock) -> None:
    make().record(WEB, EventType.NORMAL, "Pulled", "é" * 2000)

    await clock.advance(0)

    (message,) = messages(api)
    assert 1000 < len(message.encode()) <= 1024


async def test_equal_events_become_one_series(make: MakeRecorder, api: FakeApi, clock: FakeClock) -> None:
    recorder = make()
    for _ in range(5):
        recorder.record(WEB, EventType.WARNING, "BackOff", "Back-off restarting")
        await clock.advance(0.5)
    await clock.advance(10)

    (event,) = api.all(CORE_EVENTS)
    assert event["count"] == 5
    assert (event["firstTimestamp"], event["lastTimestamp"]) == ("2024-01-02T15:04:05Z", "2024-01-02T15:04:07Z")
    assert len(api.made("patch")) == 2


async def test_repeats_are_sent_together(make: MakeRecorder, api: FakeApi, clock: FakeClock) -> None:
    recorder = make()
    for _ in range(25):
        recorder.record(WEB, EventType.WARNING, "Unhealthy", "Readiness probe failed")
        await clock.advance(1)
    await clock.advance(11)

    (event,) = api.all(CORE_EVENTS)
    assert event["count"] == 25
    assert len(api.made("patch")) <= 4


async def test_events_over_the_limit_of_an_object_are_only_counted(
    make: MakeRecorder, api: FakeApi, clock: FakeClock
) -> None:
    recorder = make()
    for _ in range(25):
        recorder.record(WEB, EventType.WARNING, "Unhealthy", "Readiness probe failed")
    await clock.advance(30)
    for _ in range(75):
        recorder.record(WEB, EventType.WARNING, "Unhealthy", "Readiness probe failed")
    recorder.record(WEB, EventType.WARNING, "BackOff", "Back-off restarting")
    recorder.record(NODE, EventType.NORMAL, "Starting", "Starting kubelet.")
    await clock.advance(30)
    counts = {event["reason"]: event["count"] for event in api.all(CORE_EVENTS)}

    await clock.advance(300)
    recorder.record(WEB, EventType.WARNING, "Unhealthy", "Readiness probe failed")
    await clock.advance(30)

    assert counts == {"Unhealthy": 25, "Starting": 1}
    assert {event["reason"]: event["count"] for event in api.all(CORE_EVENTS)} == {"Unhealthy": 101, "Starting": 1}


async def test_event_first_over_the_limit_is_created_with_its_count(
    make: MakeRecorder, api: FakeApi, clock: FakeClock
) -> None:
    recorder = make()
    for _ in range(25):
        recorder.record(WEB, EventType.WARNING, "Unhealthy", "Readiness probe failed")
    for _ in range(3):
        recorder.record(WEB, EventType.WARNING, "BackOff", "Back-off restarting")
    await clock.advance(301)
    recorder.record(WEB, EventType.WARNING, "BackOff", "Back-off restarting")
    await clock.advance(1)

    (event,) = [event for event in api.all(CORE_EVENTS) if event["reason"] == "BackOff"]
    assert event["count"] == 4
    assert (event["firstTimestamp"], event["lastTimestamp"]) == ("2024-01-02T15:04:05Z", "2024-01-02T15:09:06Z")


async def test_many_similar_events_become_one(make: MakeRecorder, api: FakeApi, clock: FakeClock) -> None:
    recorder = make()
    for number in range(20):
        recorder.record(WEB, EventType.NORMAL, "Pulled", f"Pulled in {number} ms")
        await clock.advance(0.1)
    await clock.advance(20)

    assert len(api.all(CORE_EVENTS)) == 10
    (combined,) = [event for event in api.all(CORE_EVENTS) if "combined" in event["message"]]
    assert combined["message"] == "(combined from similar events): Pulled in 19 ms"
    assert combined["count"] == 11


async def test_repeated_message_keeps_its_own_event_among_similar_ones(
    make: MakeRecorder, api: FakeApi, clock: FakeClock
) -> None:
    recorder = make()
    for number in range(10):
        recorder.record(WEB, EventType.NORMAL, "Pulled", f"Pulled in {number} ms")
    recorder.record(WEB, EventType.NORMAL, "Pulled", "Pulled in 5 ms")
    await clock.advance(20)

    counts = {event["message"]: event["count"] for event in api.all(CORE_EVENTS)}
    assert (len(counts), counts["Pulled in 5 ms"]) == (10, 2)


async def test_similar_events_more_than_ten_minutes_apart_stay_separate(
    make: MakeRecorder, api: FakeApi, clock: FakeClock
) -> None:
    recorder = make()
    for number in range(12):
        recorder.record(WEB, EventType.NORMAL, "Pulled", f"Pulled in {number} ms")
        await clock.advance(601)

    assert len(api.all(CORE_EVENTS)) == 12


async def test_series_ends_after_an_hour_without_occurrence(make: MakeRecorder, api: FakeApi, clock: FakeClock) -> None:
    recorder = make()
    for pause in (3000, 3000, 3601):
        recorder.record(WEB, EventType.NORMAL, "Pulling", "Pulling image")
        await clock.advance(pause)
    recorder.record(WEB, EventType.NORMAL, "Pulling", "Pulling image")
    await clock.advance(1)

    assert [event["count"] for event in api.all(CORE_EVENTS)] == [3, 1]


async def test_ended_series_use_no_memory(clock: FakeClock) -> None:
    aggregator = EventAggregator(clock)
    for number in range(5):
        aggregator.record(pod_named(f"web-{number}"), EventType.NORMAL, "Pulling", "Pulling image", "", None)
        if (series := aggregator.take()) is not None:
            aggregator.mark_sent(series, 1)
    await clock.advance(3601)
    aggregator.record(WEB, EventType.NORMAL, "Pulling", "Pulling image", "", None)

    assert len(aggregator) == 1


async def test_series_of_an_ended_object_use_no_memory(clock: FakeClock) -> None:
    aggregator = EventAggregator(clock)
    for regarding in (WEB, pod_named("other")):
        aggregator.record(regarding, EventType.NORMAL, "Pulling", "Pulling image", "", None)
        aggregator.mark_sent(series := taken(aggregator), series.count)

    aggregator.end(pod_named("web"))

    assert len(aggregator) == 1


async def test_unsent_series_of_an_ended_object_is_dropped_after_it_is_sent(clock: FakeClock) -> None:
    aggregator = EventAggregator(clock)
    aggregator.record(WEB, EventType.NORMAL, "Killing", "Stopping container", "", None)

    aggregator.end(pod_named("web"))
    aggregator.mark_sent(taken(aggregator), 1)

    assert len(aggregator) == 0


async def test_repeat_of_an_ended_object_is_sent(clock: FakeClock) -> None:
    aggregator = EventAggregator(clock)
    aggregator.record(WEB, EventType.NORMAL, "Killing", "Stopping container", "", None)
    in_flight = taken(aggregator)
    aggregator.record(WEB, EventType.NORMAL, "Killing", "Stopping container", "", None)

    aggregator.end(pod_named("web"))
    aggregator.mark_sent(in_flight, 1)
    await clock.advance(1)
    aggregator.mark_sent(repeat := taken(aggregator), repeat.count)

    assert (repeat.count, len(aggregator)) == (2, 0)


async def test_expired_event_is_created_again_with_its_count(
    make: MakeRecorder, api: FakeApi, clock: FakeClock
) -> None:
    recorder = make()
    recorder.record(WEB, EventType.NORMAL, "Pulling", "Pulling image")
    await clock.advance(60)
    name = api.all(CORE_EVENTS)[0]["metadata"]["name"]
    api.remove(CORE_EVENTS, name)
    recorder.record(WEB, EventType.NORMAL, "Pulling", "Pulling image")
    await clock.advance(5)

    (event,) = api.all(CORE_EVENTS)
    assert (event["metadata"]["name"], event["count"]) == (name, 2)
    assert (event["firstTimestamp"], event["lastTimestamp"]) == ("2024-01-02T15:04:05Z", "2024-01-02T15:05:05Z")


# --- servers that reject events -------------------------------------------------------------------------------


async def test_rejected_events_do_not_change_the_form_of_others(
    make: MakeRecorder, api: FakeApi, clock: FakeClock
) -> None:
    recorder = make()
    api.fail("create", ApiError("namespace is terminating", code=403))
    recorder.record(WEB, EventType.NORMAL, "Killing", "Stopping container")
    recorder.record(NODE, EventType.NORMAL, "NodeReady", "ready")
    await clock.advance(1)

    assert messages(api) == ["ready"]
    assert recorder.rejected == 1
    assert {request.resource for request in api.made("create")} == {CORE_EVENTS}


async def test_rejected_event_does_not_delay_others(make: MakeRecorder, api: FakeApi, clock: FakeClock) -> None:
    recorder = make()
    api.fail("create", ApiError("invalid", code=422))
    recorder.record(WEB, EventType.NORMAL, "A", "a")
    recorder.record(WEB, EventType.NORMAL, "B", "b")
    await clock.advance(1)

    assert messages(api) == ["b"]


async def test_event_that_always_fails_is_dropped(make: MakeRecorder, api: FakeApi, clock: FakeClock) -> None:
    recorder = make()
    api.fail("create", ApiError("internal", code=500, transient=True), times=None)
    recorder.record(WEB, EventType.NORMAL, "A", "a")
    await clock.advance(600)

    assert len(api.made("create")) == 12
    assert recorder.rejected == 1


@pytest.mark.parametrize("repeats", [0, 1])
async def test_lost_response_does_not_duplicate_the_event(
    make: MakeRecorder, api: FakeApi, clock: FakeClock, repeats: int
) -> None:
    recorder = make()
    recorder.record(WEB, EventType.NORMAL, "A", "a")
    api.hang("create")
    await clock.advance(0)
    stored = api.made("create")[0]
    api.put(CORE_EVENTS, stored.body, "default")
    for _ in range(repeats):
        recorder.record(WEB, EventType.NORMAL, "A", "a")
    api.fail("create", ApiUnavailable("reset"))
    api.recover("create")
    await clock.advance(30)

    (event,) = api.all(CORE_EVENTS)
    assert event["count"] == 1 + repeats


# --- outages and floods ---------------------------------------------------------------------------------------


async def test_no_event_is_lost_while_the_server_is_unavailable(
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

    assert len(api.all(CORE_EVENTS)) == 6
    assert next(event for event in api.all(CORE_EVENTS) if event["reason"] == "BackOff")["count"] == 3
    order = [event["reason"] for event in api.all(CORE_EVENTS)]
    assert order.index("Reason4") < order.index("Reason1")
    assert [record.levelno for record in caplog.records].count(logging.WARNING) == 1


async def test_flood_drops_only_repeats_of_normal_events(make: MakeRecorder, api: FakeApi, clock: FakeClock) -> None:
    recorder = make(capacity=20)
    pods = [pod_named(f"web-{number}") for number in range(10)]

    def record_both() -> None:
        for number, pod in enumerate(pods):
            recorder.record(pod, EventType.NORMAL, f"Normal{number}", "n")
            recorder.record(pod, EventType.WARNING, f"Warning{number}", "w")

    record_both()
    await clock.advance(1)
    api.outage = True
    record_both()
    for number, pod in enumerate(pods):
        recorder.record(pod, EventType.NORMAL, f"Later{number}", "l")
    dropped = recorder.dropped
    api.outage = False
    await clock.advance(60)

    counts = {event["reason"]: event["count"] for event in api.all(CORE_EVENTS)}
    assert dropped == 10
    assert all(counts[f"Normal{number}"] == 1 for number in range(10))
    assert all(counts[f"Warning{number}"] == 2 for number in range(10))
    assert all(counts[f"Later{number}"] == 1 for number in range(10))


async def test_drops_are_logged_once_when_they_begin(
    make: MakeRecorder, api: FakeApi, clock: FakeClock, caplog: pytest.LogCaptureFixture
) -> None:
    recorder = make(capacity=5)
    api.outage = True
    for number in range(50):
        recorder.record(pod_named(f"web-{number}"), EventType.NORMAL, "Reason", "n")

    assert recorder.dropped == 45
    assert [record.message for record in caplog.records].count("Too many events, dropping old repeats") == 1


async def test_occurrences_over_the_limit_of_an_object_are_not_dropped(
    make: MakeRecorder, clock: FakeClock, caplog: pytest.LogCaptureFixture
) -> None:
    recorder = make(capacity=5)
    for _ in range(100):
        recorder.record(WEB, EventType.WARNING, "Unhealthy", "Readiness probe failed")
        await clock.advance(1)
    for number in range(10):
        recorder.record(pod_named(f"web-{number}"), EventType.NORMAL, "Reason", "n")
        await clock.advance(1)

    assert recorder.dropped == 0
    assert [record for record in caplog.records if record.levelno >= logging.WARNING] == []


# --- the end --------------------------------------------------------------------------------------------------


async def test_flush_sends_queued_events(make: MakeRecorder, api: FakeApi, clock: FakeClock, tasks: TaskOwner) -> None:
    recorder = make()
    recorder.record(WEB, EventType.NORMAL, "A", "a")
    await clock.advance(0)
    recorder.record(WEB, EventType.NORMAL, "A", "a")
    await tasks.close()
    recorder.record(WEB, EventType.NORMAL, "B", "b")

    await recorder.flush(5)

    assert {event["reason"]: event["count"] for event in api.all(CORE_EVENTS)} == {"A": 2, "B": 1}


async def test_flush_sends_events_in_flight(
    make: MakeRecorder, api: FakeApi, clock: FakeClock, tasks: TaskOwner
) -> None:
    recorder = make()
    api.hang("create")
    recorder.record(WEB, EventType.NORMAL, "A", "a")
    await clock.advance(0)
    await tasks.close()
    api.recover("create")

    await recorder.flush(5)

    assert messages(api) == ["a"]


async def test_flush_times_out_while_the_server_is_unavailable(
    make: MakeRecorder, api: FakeApi, clock: FakeClock, tasks: TaskOwner, caplog: pytest.LogCaptureFixture
) -> None:
    recorder = make()
    api.outage = True
    recorder.record(WEB, EventType.NORMAL, "A", "a")
    await tasks.close()

    await recorder.flush(5)

    assert "Dropped unsent events on shutdown" in caplog.text


# --- the plugin -----------------------------------------------------------------------------------------------


@pytest.mark.row("config.eventRecordQPS", "config.eventBurst", "card.events")
async def test_configured_rate_is_enforced(tmp_path: Path, clock: FakeClock, tasks: TaskOwner) -> None:
    transport = FakeTransport()
    client = Client(transport, clock)
    config = make_config(event_record_qps=2, event_burst=3)
    context = make_context(tmp_path, clock=clock, config=config, tasks=tasks, new_api=client.with_rate)
    recorder = load_plugin(event_recorder, context=context).provide("nodeagent_provide_event_recorder", context=context)
    for number in range(10):
        recorder.record(WEB, EventType.NORMAL, f"Reason{number}", "note")

    await clock.advance(0)
    at_once = len(transport.requests)
    await clock.advance(2)
    later = len(transport.requests)
    await clock.advance(10)

    assert (at_once, later, len(transport.requests)) == (3, 7, 10)


@pytest.mark.row("config.eventRecordQPS")
async def test_rate_of_zero_is_unlimited(tmp_path: Path, clock: FakeClock, tasks: TaskOwner) -> None:
    transport = FakeTransport()
    client = Client(transport, clock)
    config = make_config(event_record_qps=0, event_burst=1)
    context = make_context(tmp_path, clock=clock, config=config, tasks=tasks, new_api=client.with_rate)
    recorder = load_plugin(event_recorder, context=context).provide("nodeagent_provide_event_recorder", context=context)
    for number in range(20):
        recorder.record(WEB, EventType.NORMAL, f"Reason{number}", "note")

    await clock.advance(0.001)

    assert len(transport.requests) == 20
    sent: dict[str, Any] = msgspec.json.decode(transport.requests[0].body)
    assert (sent["apiVersion"], sent["kind"]) == ("v1", "Event")


async def test_event_of_a_terminated_pod_that_occurs_again_starts_a_new_series(
    tmp_path: Path, api: FakeApi, clock: FakeClock, tasks: TaskOwner
) -> None:
    context = make_context(tmp_path, clock=clock, api=api, tasks=tasks)
    plugins = load_plugin(event_recorder, context=context)
    recorder = plugins.provide("nodeagent_provide_event_recorder", context=context)
    for name in ("web", "other"):
        recorder.record(pod_named(name), EventType.NORMAL, "Killing", "Stopping container")
    await clock.advance(1)

    await notify(plugins, "nodeagent_pod_terminated", pod=make_pod("web"))
    for name in ("web", "other"):
        recorder.record(pod_named(name), EventType.NORMAL, "Killing", "Stopping container")
    await clock.advance(1)

    counts = [(event["involvedObject"]["name"], event["count"]) for event in api.all(CORE_EVENTS)]
    assert sorted(counts) == [("other", 2), ("web", 1), ("web", 1)]


async def test_hook_provide_event_recorder_logs_on_a_standalone_node(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    context = make_context(tmp_path)
    recorder = load_plugin(event_recorder, context=context).provide("nodeagent_provide_event_recorder", context=context)

    with caplog.at_level(logging.INFO):
        recorder.record(WEB, EventType.NORMAL, "Started", "Started container web")
        await asyncio.wait_for(recorder.flush(1), 1)

    assert isinstance(recorder, LogRecorder)
    assert [record.reason for record in caplog.records] == ["Started"]  # type: ignore[attr-defined]

"""Tests for the invariants of autoscaling: each violation is reported, permitted changes are not."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from apiserver_stub.simulation.autoscaling import NAME, Autoscaling, AutoscalingRequests
from apiserver_stub.simulation.client import Response
from apiserver_stub.simulation.collections import AUTOSCALERS, DEPLOYMENTS, PODS
from apiserver_stub.simulation.network import ServerLoop
from apiserver_stub.simulation.services import Call
from nodeagent.base.simulation.clock import SimulatedClock
from tests.unit.apiserver_stub.simulation.stored import Stored

KEY = f"default/{NAME}"


class Harness:
    def __init__(self, clock: SimulatedClock) -> None:
        self.stored, self.calm = Stored(), True
        history, violations = self.stored.invariants.history, self.stored.violations
        now: Any = lambda: self.stored.now  # noqa: E731
        self.autoscaling = Autoscaling(1, history, violations, clock, now, lambda: self.calm or None)
        self.stored.invariants.observers.append(self.autoscaling.observe)

    def limit(self, minimum: int, maximum: int) -> None:
        self.stored.put(AUTOSCALERS, KEY, spec={"minReplicas": minimum, "maxReplicas": maximum})

    def scale(self, replicas: int, at: float = 0.0) -> str:
        self.stored.now = at
        self.stored.put(DEPLOYMENTS, KEY, spec={"replicas": replicas})
        return self.stored.violation

    def load(self, load: int, at: float) -> None:
        self.stored.now = at
        self.autoscaling.set_load(load)

    def statistics(self) -> Any:
        reply = self.autoscaling.respond(Call("/stats/summary", "", b"", 0.0))
        return msgspec.json.decode(reply.data.partition(b"\r\n\r\n")[2])


@pytest.fixture
def harness() -> Iterator[Harness]:
    loop = ServerLoop(1)
    yield Harness(SimulatedClock(loop))
    loop.close()


@pytest.mark.parametrize("replicas", [1, 5])
def test_replicas_outside_of_the_limits_are_a_violation(harness: Harness, replicas: int) -> None:
    harness.limit(2, 4)
    harness.scale(3)
    assert harness.scale(replicas, 399.0) == "", "the autoscaler has just changed"

    harness.autoscaling.set_metrics("hang")
    harness.scale(3, 500.0)
    assert harness.scale(replicas, 501.0) == f"autoscaler {KEY} has set {replicas} replicas, limits are 2 to 4"


def test_decrease_within_the_window_is_a_violation(harness: Harness) -> None:
    harness.limit(1, 5)
    harness.load(400, 0.0)
    harness.scale(4)
    harness.load(100, 1000.0)
    assert harness.scale(3, 1239.0) == f"autoscaler {KEY} has set 3 replicas, but needed 4 recently"


@pytest.mark.parametrize("reason", ["window", "faults", "metrics", "no autoscaler", "increase"])
def test_other_changes_are_permitted(harness: Harness, reason: str) -> None:
    harness.limit(1, 5)
    harness.load(400, 0.0)
    harness.scale(4)
    harness.load(100, 1000.0)
    harness.calm = reason != "faults"
    if reason == "metrics":
        harness.autoscaling.set_metrics("empty")
    if reason == "no autoscaler":
        harness.stored.delete(AUTOSCALERS, KEY)

    assert harness.scale(5 if reason == "increase" else 1, 1241.0 if reason == "window" else 1100.0) == ""


@pytest.mark.parametrize(
    ("load", "replicas", "deviates"),
    [(250, 3, False), (250, 2, True), (250, 4, True), (420, 4, False), (900, 5, False), (0, 1, False), (0, 2, True)],
)
def test_number_of_replicas_converges_to_that_of_the_load(
    harness: Harness, load: int, replicas: int, deviates: bool
) -> None:
    assert harness.autoscaling.deviation() == ""
    harness.limit(1, 5)
    harness.load(load, 0.0)
    harness.scale(replicas)

    assert bool(harness.autoscaling.deviation()) is deviates


def test_running_pods_share_the_load(harness: Harness) -> None:
    labels = {"labels": {"work": NAME}}
    for name, phase in (("a", "Running"), ("b", "Running"), ("c", "Pending")):
        harness.stored.put(PODS, f"default/{name}", labels, status={"phase": phase})
    harness.stored.put(PODS, "default/other", status={"phase": "Running"})
    harness.load(300, 0.0)
    harness.autoscaling.forget()

    pods = harness.statistics()["pods"]
    found = {each["podRef"]["uid"]: each["containers"][0]["cpu"]["usageNanoCores"] for each in pods}
    assert found == {"default/a": 150_000_000, "default/b": 150_000_000}


def test_node_without_statistics_does_not_respond(harness: Harness) -> None:
    harness.autoscaling.set_metrics("hang")
    assert harness.autoscaling.accepts()
    assert not harness.autoscaling.respond(Call("/", "", b"", 0.0)).data

    harness.autoscaling.set_metrics("refuse")
    assert not harness.autoscaling.accepts()


@pytest.mark.parametrize(
    ("load", "limits", "replicas", "deviates"),
    [
        (109, (1, 5), 1, False),
        (111, (1, 5), 1, True),
        (270, (1, 5), 3, False),
        (219, (1, 5), 2, False),
        (219, (3, 5), 2, True),
        (219, (2, 5), 2, False),
        (440, (1, 3), 4, True),
        (440, (1, 4), 4, False),
        (0, (1, 5), 0, True),
    ],
)
def test_deviation_within_limits_and_tolerance_is_permitted(
    harness: Harness, load: int, limits: tuple[int, int], replicas: int, deviates: bool
) -> None:
    harness.limit(*limits)
    harness.load(load, 0.0)
    harness.scale(replicas)

    assert bool(harness.autoscaling.deviation()) is deviates


def test_deviation_needs_the_autoscaler_and_its_deployment(harness: Harness) -> None:
    harness.load(400, 0.0)
    harness.scale(1)
    assert harness.autoscaling.deviation() == ""
    harness.stored.delete(DEPLOYMENTS, KEY)
    harness.limit(1, 5)
    assert harness.autoscaling.deviation() == ""


@pytest.mark.parametrize("change", ["created", "limits", "status", "recreated"])
def test_change_of_the_autoscaler_takes_some_time(harness: Harness, change: str) -> None:
    if change != "created":
        harness.limit(2, 4)
    harness.scale(3)
    harness.stored.now = 1000.0
    if change == "recreated":
        harness.stored.delete(AUTOSCALERS, KEY)
    if change == "status":
        spec = {"minReplicas": 2, "maxReplicas": 4}
        harness.stored.put(AUTOSCALERS, KEY, spec=spec, status={"currentReplicas": 3})
    else:
        harness.limit(2, 3 if change == "limits" else 4)

    assert bool(harness.scale(1, 1399.0)) is (change == "status")
    assert harness.scale(5, 1400.0)


@pytest.mark.parametrize(("at", "reported"), [(1400.0, False), (1400.5, True)])
def test_metrics_must_be_healthy_for_some_time(harness: Harness, at: float, reported: bool) -> None:
    harness.limit(1, 5)
    harness.load(400, 0.0)
    harness.scale(4)
    harness.autoscaling.set_metrics("hang")
    harness.stored.now = 1000.0
    harness.autoscaling.set_metrics("healthy")
    harness.stored.now = 1200.0
    harness.autoscaling.set_metrics("healthy")

    assert bool(harness.scale(3, at)) is reported


@pytest.mark.parametrize(("seconds", "reported"), [(60.0, True), (59.0, False)])
def test_short_load_is_not_seen_by_the_controller(harness: Harness, seconds: float, reported: bool) -> None:
    harness.limit(1, 5)
    harness.load(100, 0.0)
    harness.scale(4)
    harness.load(400, 1000.0)
    harness.load(100, 1000.0 + seconds)

    assert bool(harness.scale(1, 1100.0)) is reported


def test_other_deployments_and_creations_are_not_verified(harness: Harness) -> None:
    harness.limit(2, 4)
    harness.stored.now = 1000.0
    harness.stored.put(DEPLOYMENTS, KEY, spec={"replicas": 9})
    for replicas in (9, 8):
        harness.stored.put(DEPLOYMENTS, "default/other", spec={"replicas": replicas})
    harness.stored.put(PODS, KEY, spec={"replicas": 1})

    assert harness.stored.violation == ""


def test_status_of_a_deployment_outside_of_the_limits_may_change(harness: Harness) -> None:
    harness.limit(2, 4)
    harness.scale(9)
    harness.stored.now = 1000.0
    harness.stored.put(DEPLOYMENTS, KEY, spec={"replicas": 9}, status={"replicas": 9})

    assert harness.stored.violation == ""


def test_load_is_not_reported_for_pods_that_do_not_run(harness: Harness) -> None:
    labels = {"labels": {"work": NAME}}
    harness.stored.put(PODS, "default/a", {**labels, "deletionTimestamp": "x"}, status={"phase": "Running"})
    harness.stored.put(PODS, "default/b", {"labels": {"work": "other"}}, status={"phase": "Running"})
    harness.stored.put(PODS, "default/c", {"labels": None}, status={"phase": "Running"})
    harness.stored.put(PODS, "default/d", labels)

    assert harness.statistics() == {"pods": []}


@pytest.mark.parametrize("behavior", ["healthy", "slow"])
def test_statistics_may_be_slow(harness: Harness, behavior: str) -> None:
    harness.autoscaling.set_metrics(behavior)
    reply = harness.autoscaling.respond(Call("/stats/summary", "", b"", 0.0))

    assert (reply.seconds > 0, bool(reply.data)) == (behavior == "slow", True)


def test_statistics_may_be_invalid_or_empty(harness: Harness) -> None:
    harness.stored.put(PODS, "default/a", {"labels": {"work": NAME}}, status={"phase": "Running"})
    harness.autoscaling.set_metrics("empty")
    usages = set()
    for _ in range(30):
        for pod in harness.statistics().get("pods", ()):
            usages.add("usageNanoCores" in pod["containers"][0]["cpu"])
    assert usages == {False}

    harness.autoscaling.set_metrics("garbage")
    replies = {harness.autoscaling.respond(Call("/", "", b"", 0.0)).data for _ in range(60)}
    assert any(b"many" in reply for reply in replies)
    assert len(replies) == 6


@pytest.mark.parametrize("exists", [True, False])
def test_autoscaler_that_exists_is_replaced(harness: Harness, exists: bool) -> None:
    sent: list[tuple[str, str, Any]] = []

    class Requests:
        async def send(self, method: str, path: str, body: Any = None) -> Response:
            sent.append((method, path, body))
            return Response(409 if exists and method == "POST" else 200, {}, b"{}")

    requests: Any = Requests()
    steps = AutoscalingRequests(requests, harness.autoscaling)
    asyncio.run(steps.apply_autoscaler(2, 4))
    asyncio.run(steps.delete_autoscaler())

    path = "/apis/autoscaling/v2/namespaces/default/horizontalpodautoscalers"
    replaced = [("PUT", f"{path}/{NAME}")] if exists else []
    assert [each[:2] for each in sent[1:]] == [("POST", path), *replaced, ("DELETE", f"{path}/{NAME}")]
    assert (sent[-2][2]["spec"]["minReplicas"], sent[-2][2]["spec"]["maxReplicas"]) == (2, 4)


def test_steps_change_load_and_metrics(harness: Harness) -> None:
    requests: Any = None
    steps = AutoscalingRequests(requests, harness.autoscaling)
    harness.limit(1, 5)
    harness.scale(1)
    steps.set_load(400)
    steps.set_metrics("refuse")
    assert (bool(harness.autoscaling.deviation()), harness.autoscaling.accepts()) == (True, False)

    steps.calm()

    assert harness.autoscaling.accepts()

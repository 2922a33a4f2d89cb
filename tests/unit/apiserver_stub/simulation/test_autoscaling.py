"""Tests for the invariants of autoscaling: each violation is reported, permitted changes are not."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from apiserver_stub.simulation.autoscaling import NAME, Autoscaling
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

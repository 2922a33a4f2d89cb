"""Tests for the usage of quotas: stored objects, reservations and cached usage."""

from __future__ import annotations

from typing import Any

import pytest

from apiserver_stub.admission.quota import usage_tracker as module
from apiserver_stub.admission.quota.usage_tracker import COLLECTION, QuotaUsageTracker, exceeded
from apiserver_stub.options import parse
from apiserver_stub.server.kinds import build_registry
from nodeagent.base.identity import Identity
from nodeagent.base.quantity import Quantity
from tests.unit.apiserver_stub.authz.conftest import Memory

REGISTRY = build_registry(parse([]))
ONE = {"pods": Quantity(1)}


class Harness:
    """Tracker of a namespace with pods."""

    def __init__(self) -> None:
        self.store: Any = Memory()
        self.tracker = QuotaUsageTracker(self.store, REGISTRY, Identity())

    def add_pod(self, name: str, cpu: str = "1", **spec: Any) -> None:
        container = {"name": "c", "resources": {"requests": {"cpu": cpu}}}
        pod = {"metadata": {"name": name, "namespace": "n"}, "spec": {"containers": [container], **spec}}
        self.store.put("core/pods", pod)

    def count(self, *names: str, without: Any = None, **spec: Any) -> dict[str, str]:
        quota = {**quota_of(*names), "spec": {"hard": dict.fromkeys(names, "9"), **spec}}
        return {name: str(amount) for name, amount in self.tracker.count(quota, without=without).items()}


def quota_of(*names: str) -> dict[str, Any]:
    return {"metadata": {"name": "q", "namespace": "n"}, "spec": {"hard": dict.fromkeys(names, "9")}}


@pytest.fixture
def harness() -> Harness:
    return Harness()


@pytest.mark.parametrize(
    ("label", "expected"),
    [
        ("pods", True),
        ("deployments.apps", True),
        ("nodes", False),
        ("events", False),
        ("events.events.k8s.io", False),
        ("bindings", False),
        ("localsubjectaccessreviews.authorization.k8s.io", False),
    ],
)
def test_stored_resources_in_namespaces_are_tracked(harness: Harness, label: str, *, expected: bool) -> None:
    assert harness.tracker.tracks(label) is expected
    assert ("core/pods" in harness.tracker.collections, "core/nodes" in harness.tracker.collections) == (True, False)


def test_stored_objects_of_the_namespace_are_counted(harness: Harness) -> None:
    harness.add_pod("a", "500m")
    harness.add_pod("b", activeDeadlineSeconds=5)
    for name, namespace in (("a", "n"), ("b", "n"), ("a", "other")):
        harness.store.put("core/configmaps", {"metadata": {"name": name, "namespace": namespace}})

    assert harness.count("pods", "requests.cpu", "configmaps", "count/configmaps") == {
        "pods": "2",
        "requests.cpu": "1500m",
        "configmaps": "2",
        "count/configmaps": "2",
    }
    assert harness.count("count/pods") == {"count/pods": "2"}
    assert harness.count("count/pods", "pods", scopes=["Terminating"]) == {"count/pods": "1", "pods": "1"}
    assert harness.count("count/pods", scopes=["Terminating"]) == {"count/pods": "1"}
    assert harness.count("configmaps", scopes=["Terminating"]) == {"configmaps": "0"}


def test_changed_and_deleted_objects_are_counted_again(harness: Harness) -> None:
    harness.add_pod("a")
    assert harness.count("cpu") == {"cpu": "1"}
    harness.add_pod("a", "3")
    assert harness.count("cpu") == {"cpu": "3"}

    harness.store.remove("core/pods", "n/a")
    harness.tracker.drop("core/pods", "n/a")
    assert harness.count("cpu") == {"cpu": "0"}


def test_reservations_count_once_until_they_are_released(harness: Harness) -> None:
    freed: list[str] = []
    harness.tracker.on_freed = freed.append
    quota, other = quota_of("pods"), {"pods": Quantity(2), "cpu": Quantity(1)}
    for amounts in (ONE, ONE, other):
        harness.tracker.reserve(quota, amounts)

    assert harness.count("pods") == {"pods": "3"}
    assert harness.count("pods", without=ONE) == {"pods": "2"}
    harness.tracker.free(quota, ONE)
    assert harness.count("pods") == {"pods": "2"}
    harness.tracker.free(quota, ONE)
    harness.tracker.free(quota, other)
    assert harness.count("pods") == {"pods": "0"}
    assert freed == ["n/q"] * 3


def test_release_without_a_callback_and_equal_amounts_are_distinguished(harness: Harness) -> None:
    quota, equal = quota_of("pods"), dict(ONE)
    harness.tracker.reserve(quota, ONE)
    harness.tracker.reserve(quota, equal)

    harness.tracker.free(quota, equal)

    assert harness.count("pods") == {"pods": "1"}


async def test_single_server_waits_for_no_others(harness: Harness) -> None:
    assert await harness.tracker.refresh() is False
    assert await harness.tracker.may_fit_later([quota_of("pods")], ONE, 5) is False


async def test_usage_is_cached_ahead_and_other_tasks_run(harness: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_STEP", 2)
    pauses: list[float] = []

    async def pause(seconds: float) -> None:
        pauses.append(seconds)

    monkeypatch.setattr(module.asyncio, "sleep", pause)
    for name in "abcde":
        harness.add_pod(name)

    await harness.tracker.read_ahead("n")

    assert pauses == [0, 0]
    assert harness.count("pods") == {"pods": "5"}


async def test_recount_writes_the_status_if_it_differs(harness: Harness) -> None:
    harness.add_pod("a")
    harness.store.put(COLLECTION, quota_of("pods"))

    await harness.tracker.recount("n/q")
    writes = harness.store.writes
    await harness.tracker.recount("n/q")
    await harness.tracker.recount("n/missing")

    assert harness.store.writes == writes
    assert harness.store.read(COLLECTION, "n/q")["status"] == {"hard": {"pods": "9"}, "used": {"pods": "1"}}
    harness.store.put(COLLECTION, {"metadata": {"name": "e", "namespace": "n"}})
    await harness.tracker.recount("n/e")
    assert harness.store.read(COLLECTION, "n/e")["status"] == {"hard": {}, "used": {}}


@pytest.mark.parametrize(("used", "expected"), [(1, []), (2, ["pods"]), (None, [])])
def test_limits_are_inclusive(used: int | None, expected: list[str]) -> None:
    before = {} if used is None else {"pods": Quantity(used)}

    assert exceeded({"pods": Quantity(2)}, before, {"pods": Quantity(1), "cpu": Quantity(9)}) == expected

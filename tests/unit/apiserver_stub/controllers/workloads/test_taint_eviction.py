"""Tests for the eviction of pods because of taints of their node."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from apiserver_stub.apimachinery import objects
from apiserver_stub.controllers.views import Metadata, PodSpec, PodView
from apiserver_stub.controllers.workloads.taint_eviction import eviction_time
from nodeagent.testing import FakeClock
from tests.unit.apiserver_stub.controllers.harness import MeteredStore, store
from tests.unit.apiserver_stub.controllers.workloads.harness import Cluster, Object, cluster

__all__ = ["store"]
NOW = datetime(2026, 1, 1, tzinfo=UTC)
A, B = ({"key": key, "effect": "NoExecute"} for key in "ab")


def test_first_matching_toleration_of_each_taint_decides() -> None:
    def tolerated(key: str, seconds: int | None = None) -> dict[str, object]:
        return {"key": key, "operator": "Exists", "tolerationSeconds": seconds}

    for title, taints, tolerations, expected in (
        ("not tolerated", [A], None, 0),
        ("another one is tolerated", [A], [tolerated("b")], 0),
        ("forever", [A], [tolerated("a")], None),
        ("for a time", [A], [tolerated("a", 60)], 60),
        ("for a negative time", [A], [tolerated("a", -1)], 0),
        ("forever by the first one", [A], [tolerated("a"), tolerated("a", 60)], None),
        ("for a time by the first one", [A], [tolerated("a", 60), tolerated("a", 30), tolerated("a")], 60),
        ("shortest time of all taints", [A, B], [tolerated("a", 60), tolerated("b", 30)], 30),
        ("one is tolerated forever", [A, B], [tolerated("a"), tolerated("b", 30)], 30),
        ("one is not tolerated", [A, B], [tolerated("a")], 0),
        ("no taints", [], None, None),
    ):
        pod = PodView(Metadata("p"), PodSpec("n", tolerations=tuple(tolerations) if tolerations else None))
        found = eviction_time(pod, taints, lambda taint: NOW)
        assert found == (None if expected is None else NOW + timedelta(seconds=expected)), title


def node(*taints: Object, uid: str = "n") -> Object:
    return {"metadata": {"name": "n", "uid": uid}, "spec": {"taints": list(taints)}}


async def add_pod(found: Cluster, name: str, node: str = "n", *, seconds: int | None = None, **metadata: Any) -> None:
    spec = {"nodeName": node, "containers": [{"name": "c", "image": "i"}]} if node else {"containers": []}
    if seconds is not None:
        spec["tolerations"] = [{"operator": "Exists", "effect": "NoExecute", "tolerationSeconds": seconds}]
    fields = {"name": name, "namespace": "default", "uid": name, **metadata}
    status = {"phase": "Running"}
    found.store.put("core/pods", {"kind": "Pod", "metadata": fields, "spec": spec, "status": status})
    await found.rest()


def deleted(found: Cluster) -> list[str]:
    return [pod["metadata"]["name"] for pod in found.pods() if "deletionTimestamp" in pod["metadata"]]


async def test_pod_that_is_assigned_to_a_tainted_node_is_evicted(store: MeteredStore) -> None:
    async with cluster(store, FakeClock(), "taint-eviction-controller") as found:
        store.put("core/nodes", node({"key": "soft", "effect": "NoSchedule"}))
        await add_pod(found, "before")
        await add_pod(found, "waiting", "")
        await add_pod(found, "elsewhere", "missing")
        first = deleted(found)
        store.put("core/nodes", node(A))
        await found.rest()
        await add_pod(found, "after")
        second = deleted(found)
    assert (first, second) == ([], ["after", "before"])


@pytest.mark.parametrize(("added", "expected"), [(None, 60), (-40, 20), (-100, 0)])
async def test_toleration_starts_when_the_taint_is_added(store: MeteredStore, added: int | None, expected: int) -> None:
    clock = FakeClock()
    time = {} if added is None else {"timeAdded": objects.format_time(clock.wall() + timedelta(seconds=added))}
    async with cluster(store, clock, "taint-eviction-controller") as found:
        store.put("core/nodes", node({**A, **time}))
        await add_pod(found, "p", seconds=60)
        if expected:
            await found.advance(expected - 1)
            assert deleted(found) == []
            await found.advance(1)
        assert deleted(found) == ["p"]


async def test_taints_without_time_are_distinguished_by_key(store: MeteredStore) -> None:
    async with cluster(store, FakeClock(), "taint-eviction-controller") as found:
        store.put("core/nodes", node(A))
        await add_pod(found, "first", seconds=60)
        await found.advance(50)
        store.put("core/nodes", node(B))
        await found.advance(50)
        before = deleted(found)
        await found.advance(11)
        assert (before, deleted(found)) == ([], ["first"])

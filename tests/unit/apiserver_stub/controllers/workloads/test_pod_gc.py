"""Tests for the pod garbage collector."""

from __future__ import annotations

from typing import Any

import pytest

from apiserver_stub.controllers.workloads import pod_gc
from nodeagent.testing import FakeClock
from tests.unit.apiserver_stub.controllers.harness import MeteredStore, store
from tests.unit.apiserver_stub.controllers.workloads.harness import PODS, Cluster, cluster

__all__ = ["store"]
ONLY = "pod-garbage-collector-controller"


def add(
    store: MeteredStore, name: str, phase: str = "Running", *, node: str = "", reason: str = "", **metadata: Any
) -> None:
    fields = {"name": name, "namespace": "default", "uid": name, **metadata}
    spec = {"containers": [], **({"nodeName": node} if node else {})}
    status = {"phase": phase, **({"reason": reason} if reason else {})}
    store.put(PODS, {"kind": "Pod", "metadata": fields, "spec": spec, "status": status})


def names(found: Cluster) -> list[str]:
    return [pod["metadata"]["name"] for pod in found.pods()]


async def test_pods_are_deleted_after_their_node_was_missing_for_a_time(store: MeteredStore) -> None:
    hold = {"finalizers": ["example.com/hold"]}
    store.put("core/nodes", {"metadata": {"name": "a", "uid": "a"}})
    add(store, "elsewhere", node="a")
    add(store, "running", node="b", **hold)
    add(store, "succeeded", "Succeeded", node="b", **hold)
    add(store, "removed", node="b")
    async with cluster(store, FakeClock(), ONLY) as found:
        for _ in range(2):
            await found.advance(pod_gc.CHECK_SECONDS)
        before = names(found)
        await found.advance(pod_gc.CHECK_SECONDS)
        after = {pod["metadata"]["name"]: pod["status"]["phase"] for pod in found.pods()}
    assert before == ["elsewhere", "removed", "running", "succeeded"]
    assert after == {"elsewhere": "Running", "running": "Failed", "succeeded": "Succeeded"}


async def test_node_that_returns_keeps_its_pods(store: MeteredStore) -> None:
    add(store, "p", node="a")
    async with cluster(store, FakeClock(), ONLY) as found:
        for _ in range(3):
            await found.advance(pod_gc.CHECK_SECONDS)
            store.put("core/nodes", {"metadata": {"name": "a", "uid": "a"}})
            await found.advance(pod_gc.CHECK_SECONDS)
            await found.delete("core/nodes", "a")
        assert names(found) == ["p"]


async def test_deleted_pods_without_a_node_are_removed(store: MeteredStore) -> None:
    deleted = {"deletionTimestamp": "2026-01-01T00:00:00Z"}
    store.put("core/nodes", {"metadata": {"name": "a", "uid": "a"}})
    add(store, "assigned", node="a", **deleted)
    add(store, "unassigned", "Pending", **deleted)
    add(store, "waiting", "Pending")
    async with cluster(store, FakeClock(), ONLY) as found:
        await found.advance(pod_gc.CHECK_SECONDS)
        assert names(found) == ["assigned", "waiting"]


@pytest.mark.parametrize(
    ("key", "ready", "is_deleted"),
    [
        ("node.kubernetes.io/out-of-service", "Unknown", True),
        ("node.kubernetes.io/out-of-service", "True", False),
        ("node.kubernetes.io/unreachable", "Unknown", False),
    ],
)
async def test_deleted_pods_of_a_node_out_of_service_are_removed(
    store: MeteredStore, key: str, ready: str, is_deleted: bool
) -> None:
    status = {"conditions": [{"type": "Ready", "status": ready}]}
    spec = {"taints": [{"key": key, "effect": "NoExecute"}]}
    store.put("core/nodes", {"metadata": {"name": "a", "uid": "a"}, "spec": spec, "status": status})
    add(store, "deleted", node="a", deletionTimestamp="2026-01-01T00:00:00Z")
    add(store, "tolerating", node="a")
    async with cluster(store, FakeClock(), ONLY) as found:
        await found.advance(pod_gc.CHECK_SECONDS)
        assert names(found) == (["tolerating"] if is_deleted else ["deleted", "tolerating"])


async def test_evicted_and_oldest_terminated_pods_are_deleted_first(
    store: MeteredStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pod_gc, "MAX_TERMINATED", 2)
    store.put("core/nodes", {"metadata": {"name": "a", "uid": "a"}})
    for name, phase, day in (("b", "Succeeded", 1), ("a", "Failed", 2), ("c", "Failed", 3), ("running", "Running", 1)):
        add(store, name, phase, node="a", creationTimestamp=f"2026-01-0{day}T00:00:00Z")
    add(store, "evicted", "Failed", node="a", reason="Evicted", creationTimestamp="2026-01-04T00:00:00Z")
    add(store, "deleted", "Failed", node="a", deletionTimestamp="2026-01-04T00:00:00Z")
    async with cluster(store, FakeClock(), ONLY) as found:
        await found.advance(pod_gc.CHECK_SECONDS)
        assert names(found) == ["a", "c", "deleted", "running"]


async def test_failed_deletion_does_not_affect_other_pods(
    store: MeteredStore, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(collection: str, key: str) -> None:
        if key == "default/a":
            raise OSError("no space")

    for name in ("a", "b"):
        add(store, name, "Pending", deletionTimestamp="2026-01-01T00:00:00Z")
    async with cluster(store, FakeClock(), ONLY) as found:
        store.before_update = fail
        await found.advance(pod_gc.CHECK_SECONDS)
        assert names(found) == ["a"]
    assert caplog.messages == ["Failed to delete pod, will retry"]

"""Tests for the controllers of node lifecycle, taint eviction and pod garbage collection."""

from __future__ import annotations

from typing import Any

from apiserver_stub.apimachinery import objects
from nodeagent.testing import FakeClock
from tests.unit.apiserver_stub.controllers.harness import MeteredStore, store
from tests.unit.apiserver_stub.controllers.workloads.harness import PODS, Cluster, Object, cluster

__all__ = ["store"]
NODES, LEASES = "core/nodes", "coordination.k8s.io/leases"
SOME_TIME = "2024-01-01T00:00:00Z"
UNREACHABLE, NOT_READY = "node.kubernetes.io/unreachable", "node.kubernetes.io/not-ready"


async def add_node(found: Cluster, name: str) -> None:
    condition = {
        "type": "Ready",
        "status": "True",
        "reason": "KubeletReady",
        "lastHeartbeatTime": "2024-01-01T00:00:00Z",
    }
    node = {"kind": "Node", "apiVersion": "v1", "metadata": {"name": name, "uid": name}, "spec": {}}
    found.store.put(NODES, {**node, "status": {"conditions": [condition]}})
    await found.rest()


def renew(found: Cluster, *names: str) -> None:
    for name in names:
        metadata = {"name": name, "namespace": "kube-node-lease", "uid": f"lease-{name}"}
        found.store.put(LEASES, {"metadata": metadata, "spec": {"renewTime": str(found.clock.now())}})


def ready(found: Cluster, name: str) -> tuple[str, str]:
    conditions = found.read(NODES, name)["status"]["conditions"]
    condition = next(item for item in conditions if item["type"] == "Ready")
    return condition["status"], condition["reason"]


def taints(found: Cluster, name: str) -> set[str]:
    given = found.read(NODES, name)["spec"].get("taints") or ()
    return {item["key"] for item in given if item["effect"] == "NoExecute"}


async def pass_time(found: Cluster, seconds: int, *renewed: str) -> None:
    """Advance the clock in steps, while the nodes *renewed* send heartbeats."""
    for _ in range(seconds // 5):
        renew(found, *renewed)
        await found.advance(5)


async def add_pod(found: Cluster, name: str, node: str, **spec: Any) -> None:
    pod: Object = {
        "metadata": {"name": name},
        "spec": {"nodeName": node, "containers": [{"name": "c", "image": "i"}], **spec},
    }
    await found.create("pods", pod)
    await found.run_pods(name)


async def test_node_without_heartbeat_becomes_unknown_and_is_tainted(store: MeteredStore) -> None:
    async with cluster(store, FakeClock()) as found:
        for name in "ab":
            await add_node(found, name)
        await add_pod(found, "web", "b")
        await pass_time(found, 60, "a", "b")
        before = ready(found, "b"), taints(found, "b")

        await pass_time(found, 60, "a")
        after = ready(found, "b"), taints(found, "b")
        conditions = found.read(PODS, "default/web")["status"]["conditions"]
        healthy = ready(found, "a"), taints(found, "a")
        notes = found.notes()
    assert before == (("True", "KubeletReady"), set())
    assert after == (("Unknown", "NodeStatusUnknown"), {UNREACHABLE})
    assert healthy == (("True", "KubeletReady"), set())
    assert [item["status"] for item in conditions if item["type"] == "Ready"] == ["False"]
    assert "Node b status is now: NodeNotReady" in notes


async def test_taint_is_removed_when_the_node_is_ready_again(store: MeteredStore) -> None:
    async with cluster(store, FakeClock()) as found:
        for name in "ab":
            await add_node(found, name)
        await pass_time(found, 60, "a")
        before = taints(found, "b")
        await add_node(found, "b")
        await pass_time(found, 10, "a", "b")
        assert taints(found, "b") == set()
    assert before == {UNREACHABLE}


async def test_no_pods_are_evicted_while_all_nodes_are_not_ready(store: MeteredStore) -> None:
    async with cluster(store, FakeClock()) as found:
        await add_node(found, "a")
        await add_pod(found, "web", "a")
        await pass_time(found, 120)
        assert ready(found, "a") == ("Unknown", "NodeStatusUnknown")
        assert taints(found, "a") == set()
        assert "deletionTimestamp" not in found.read(PODS, "default/web")["metadata"]


async def test_new_node_without_a_condition_is_not_tainted_immediately(store: MeteredStore) -> None:
    async with cluster(store, FakeClock()) as found:
        await add_node(found, "a")
        store.put(NODES, {"metadata": {"name": "b", "uid": "b"}, "spec": {}})
        await add_pod(found, "web", "b")
        await pass_time(found, 40, "a")
        before = taints(found, "b"), found.read(PODS, "default/web")["status"]["conditions"][0]["status"]
        await pass_time(found, 40, "a")
        assert ready(found, "b") == ("Unknown", "NodeStatusNeverUpdated")
    assert before == (set(), "True")


async def test_pods_are_evicted_after_their_toleration(store: MeteredStore) -> None:
    clock = FakeClock()
    forever = {"operator": "Exists"}
    limited = {"key": NOT_READY, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 60}
    async with cluster(store, clock, "taint-eviction-controller") as found:
        await add_node(found, "a")
        await add_pod(found, "kept", "a", tolerations=[forever])
        await add_pod(found, "limited", "a", tolerations=[limited])
        await add_pod(found, "other", "a")
        node = found.read(NODES, "a")
        added = objects.format_time(clock.wall())
        node["spec"]["taints"] = [{"key": NOT_READY, "effect": "NoExecute", "timeAdded": added}]
        store.put(NODES, node)
        await found.rest()
        first = deleted(found)
        await found.advance(62)
        second = deleted(found)
        conditions = found.read(PODS, "default/other")["status"]["conditions"]
        notes = found.notes()
    assert (first, second) == (["other"], ["limited", "other"])
    assert conditions[-1]["reason"] == "DeletionByTaintManager"
    assert "Marking for deletion Pod default/other" in notes


async def test_pods_of_a_deleted_node_are_deleted(store: MeteredStore) -> None:
    async with cluster(store, FakeClock(), "pod-garbage-collector-controller") as found:
        await add_node(found, "a")
        await add_pod(found, "web", "a")
        await add_pod(found, "kept", "a")
        await found.delete(NODES, "a")
        await found.advance(30)
        before = len(found.pods())
        await found.advance(60)
        assert found.pods() == []
    assert before == 2


def deleted(found: Cluster) -> list[str]:
    return [pod["metadata"]["name"] for pod in found.pods() if "deletionTimestamp" in pod["metadata"]]

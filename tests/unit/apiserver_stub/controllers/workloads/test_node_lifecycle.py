"""Tests for the controllers of node lifecycle, taint eviction and pod garbage collection."""

from __future__ import annotations

from typing import Any

import pytest

from apiserver_stub.apimachinery import objects
from nodeagent.testing import FakeClock
from tests.unit.apiserver_stub.controllers.harness import MeteredStore, store
from tests.unit.apiserver_stub.controllers.workloads.harness import PODS, Cluster, Object, cluster

__all__ = ["store"]
NODES, LEASES = "core/nodes", "coordination.k8s.io/leases"
SOME_TIME = "2024-01-01T00:00:00Z"
ONLY = "node-lifecycle-controller"
UNREACHABLE, NOT_READY = "node.kubernetes.io/unreachable", "node.kubernetes.io/not-ready"


async def add_node(found: Cluster, name: str, status: str = "True") -> None:
    condition = {
        "type": "Ready",
        "status": status,
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


def pod_on(node: str, **spec: Any) -> Object:
    return {"spec": {"nodeName": node, "containers": [{"name": "c", "image": "i"}], **spec}}


async def add_pod(found: Cluster, name: str, node: str, **spec: Any) -> None:
    await found.create("pods", {"metadata": {"name": name}, **pod_on(node, **spec)})
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


async def test_node_has_a_grace_period_since_its_latest_heartbeat(store: MeteredStore) -> None:
    async with cluster(store, FakeClock(), ONLY) as found:
        store.put(NODES, {"metadata": {"name": "new", "uid": "new"}, "spec": {}})
        await add_node(found, "a")
        known, new = [], []
        for _ in range(13):
            await found.advance(5)
            known.append(ready(found, "a")[0])
            new.append("status" in found.read(NODES, "new"))
    assert known == ["True"] * 8 + ["Unknown"] * 5  # 40 s, checked every 5 s.
    assert new == [False] * 12 + [True]  # 60 s.


async def test_any_new_heartbeat_starts_the_grace_period_again(store: MeteredStore) -> None:
    async with cluster(store, FakeClock(), ONLY) as found:
        for name in ("by-lease", "by-status"):
            await add_node(found, name)
        for number in range(12):
            renew(found, "by-lease")
            node = found.read(NODES, "by-status")
            node["status"]["conditions"][0]["lastHeartbeatTime"] = f"2024-01-01T00:00:{number:02}Z"
            store.put(NODES, node)
            await found.advance(10)
        assert ready(found, "by-lease") == ready(found, "by-status") == ("True", "KubeletReady")


async def test_lease_renews_an_unknown_node_only_with_its_status(store: MeteredStore) -> None:
    async with cluster(store, FakeClock(), ONLY) as found:
        await add_node(found, "a")
        await found.advance(45)
        await pass_time(found, 30, "a")
        lost = ready(found, "a")
        await add_node(found, "a")
        await pass_time(found, 30, "a")
        assert ready(found, "a") == ("True", "KubeletReady")
    assert lost == ("Unknown", "NodeStatusUnknown")


async def test_all_conditions_of_a_lost_node_are_unknown(store: MeteredStore) -> None:
    clock = FakeClock()
    async with cluster(store, clock, ONLY) as found:
        metadata = {"name": "a", "uid": "a", "creationTimestamp": SOME_TIME}
        conditions = [
            {"type": "Ready", "status": "False", "reason": "KubeletNotReady", "lastTransitionTime": SOME_TIME},
            {"type": "DiskPressure", "status": "Unknown", "reason": "x", "lastTransitionTime": SOME_TIME},
            {"type": "Own", "status": "True", "reason": "x"},
        ]
        store.put(NODES, {"metadata": metadata, "spec": {}, "status": {"conditions": conditions}})
        await found.rest()
        await found.advance(40)
        await found.advance(5)
        now = objects.format_time(clock.wall())
        changed = found.read(NODES, "a")["status"]["conditions"]
        notes = found.notes()
    stopped = {"status": "Unknown", "reason": "NodeStatusUnknown", "message": "Kubelet stopped posting node status."}
    never = {
        "status": "Unknown",
        "reason": "NodeStatusNeverUpdated",
        "message": "Kubelet never posted node status.",
        "lastHeartbeatTime": SOME_TIME,
    }
    assert changed == [
        {"type": "Ready", **stopped, "lastTransitionTime": now},
        *conditions[1:],
        {"type": "MemoryPressure", **never, "lastTransitionTime": now},
        {"type": "PIDPressure", **never, "lastTransitionTime": now},
    ]
    assert "Node a status is now: NodeNotReady" not in notes  # It was not ready before.


async def test_registration_and_removal_of_nodes_are_reported(store: MeteredStore) -> None:
    async with cluster(store, FakeClock(), ONLY) as found:
        for name in ("a", "b"):
            await add_node(found, name)
        await pass_time(found, 5)
        assert len(found.notes()) == 2
        await found.delete(NODES, "a")
        await pass_time(found, 10)
        events = [(item["reason"], item["note"], item["regarding"]["uid"]) for item in found.list("core/events")]
    registered, removing = "Node {0} event: Registered Node {0} in Controller", "Removing Node a from Controller"
    assert sorted(events) == [
        *(("RegisteredNode", registered.format(name), name) for name in ("a", "b")),
        ("RemovingNode", f"Node a event: {removing}", "a"),
    ]


async def test_taints_follow_the_state_of_the_node(store: MeteredStore) -> None:
    other = {"key": NOT_READY, "effect": "NoSchedule"}
    own = {"key": "own", "effect": "NoExecute", "value": "x"}
    clock = FakeClock()
    async with cluster(store, clock, ONLY) as found:
        await add_node(found, "healthy")
        seen = []
        for status in ("False", "Unknown", "True"):
            node = found.read(NODES, "a") or {"metadata": {"name": "a", "uid": "a"}, "spec": {"taints": [other, own]}}
            node["status"] = {"conditions": [{"type": "Ready", "status": status}]}
            store.put(NODES, node)
            await pass_time(found, 5, "healthy", "a")
            seen.append(found.read(NODES, "a")["spec"]["taints"])
        node["spec"]["taints"] = [{"key": UNREACHABLE, "effect": "NoExecute"}]
        store.put(NODES, node)
        await pass_time(found, 5, "healthy", "a")
        assert "taints" not in found.read(NODES, "a")["spec"]
    times = [item.pop("timeAdded") for taints in seen for item in taints if "timeAdded" in item]
    assert seen == [
        [other, own, {"key": NOT_READY, "effect": "NoExecute"}],
        [other, own, {"key": UNREACHABLE, "effect": "NoExecute"}],
        [other, own],
    ]
    assert len(times) == 2


async def test_nodes_are_tainted_one_after_another(store: MeteredStore) -> None:
    async with cluster(store, FakeClock(), ONLY) as found:
        await add_node(found, "healthy")
        for name in "abc":
            await add_node(found, name, "False")
        counts = []
        for _ in range(6):
            await pass_time(found, 5, "healthy", "a", "b", "c")
            counts.append(sum(bool(taints(found, name)) for name in "abc"))
    assert counts == [1, 1, 2, 2, 3, 3]


async def test_pods_of_a_lost_node_are_not_ready(store: MeteredStore) -> None:
    clock = FakeClock()
    async with cluster(store, clock, ONLY) as found:
        for name in "ab":
            await add_node(found, name)
        await add_pod(found, "lost", "b")
        await add_pod(found, "elsewhere", "a")
        lost = found.read(PODS, "default/lost")
        lost["status"]["conditions"].append({"type": "PodScheduled", "status": "True"})
        store.put(PODS, lost)
        await found.create("pods", {"metadata": {"name": "waiting"}, **pod_on("b")})
        await found.run_pods("waiting", ready=False)
        before = {pod["metadata"]["name"]: pod for pod in found.pods()}
        await pass_time(found, 50, "a")
        after = {pod["metadata"]["name"]: pod for pod in found.pods()}
        events = [item for item in found.list("core/events") if item["note"] == "Node is not ready"]
    condition, scheduled = after["lost"]["status"]["conditions"]
    assert (condition["status"], scheduled["status"]) == ("False", "True")
    assert condition["lastTransitionTime"] > before["lost"]["status"]["conditions"][0]["lastTransitionTime"]
    assert {name: after[name] for name in ("elsewhere", "waiting")} == {
        name: before[name] for name in ("elsewhere", "waiting")
    }
    assert [(item["type"], item["reason"], item["regarding"]["name"]) for item in events] == [
        ("Warning", "NodeNotReady", "lost")
    ]


async def test_pod_that_is_deleted_with_its_node_is_not_reported(store: MeteredStore) -> None:
    async with cluster(store, FakeClock(), ONLY) as found:
        await add_node(found, "b")
        await add_pod(found, "lost", "b")

        def disappear(collection: str, key: str) -> None:
            if collection == PODS:
                store.before_update = None
                store.remove(PODS, "default/lost")

        store.before_update = disappear
        await pass_time(found, 50)
        assert "Node is not ready" not in found.notes()


async def test_leases_of_a_node_without_condition_are_heartbeats(store: MeteredStore) -> None:
    async with cluster(store, FakeClock(), ONLY) as found:
        store.put(NODES, {"metadata": {"name": "new", "uid": "new"}, "spec": {}})
        await pass_time(found, 120, "new")
        assert "status" not in found.read(NODES, "new")


async def test_node_that_becomes_not_ready_is_tainted_without_a_heartbeat(store: MeteredStore) -> None:
    async with cluster(store, FakeClock(), ONLY) as found:
        for name in "ab":
            await add_node(found, name)
        await pass_time(found, 10)
        await add_node(found, "b", "False")
        await pass_time(found, 5)
        assert taints(found, "b") == {NOT_READY}


async def test_failed_check_is_reported_once_and_repeated(
    store: MeteredStore, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(collection: str, key: str) -> None:
        if collection == NODES:
            raise OSError("no space")

    text = "Failed to update the state of nodes, will retry"
    async with cluster(store, FakeClock(), ONLY) as found:
        await add_node(found, "a")
        await add_pod(found, "web", "a")
        counts = []
        for error in (fail, None, fail):
            store.before_update = error
            await pass_time(found, 60)
            counts.append([record.message for record in caplog.records].count(text))
            if error is None:
                assert ready(found, "a")[0] == "Unknown"
                await add_node(found, "a")
    assert counts == [1, 1, 2]

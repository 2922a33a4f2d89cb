"""Tests for the scheduler of single-node clusters."""

from __future__ import annotations

from typing import Any

import pytest

from apiserver_stub.apimachinery.objects import format_time
from apiserver_stub.controllers.leases import SCHEDULER
from apiserver_stub.controllers.scheduler import Scheduler, with_condition
from apiserver_stub.feature_gates import build_gates
from apiserver_stub.storage import StoreUnavailable
from nodeagent.base.identity import Identity
from nodeagent.base.release import OLDEST, Release
from nodeagent.testing import FakeClock
from tests.unit.apiserver_stub.controllers.harness import MeteredStore, running, store

LEASES = "coordination.k8s.io/leases"

__all__ = ["store"]

PODS, NODES, EVENTS = "core/pods", "core/nodes", "core/events"
NO_CPU = (
    "0/1 nodes are available: 1 Insufficient cpu. "
    "preemption: 0/1 nodes are available: 1 No preemption victims found for incoming pod."
)


def node(name: str = "n1", *, ready: str = "True", cpu: str = "2", **spec: Any) -> dict[str, Any]:
    conditions = [{"type": "Ready", "status": ready}]
    allocatable = {"cpu": cpu, "memory": "4Gi", "pods": "10"}
    return {"metadata": {"name": name}, "spec": spec, "status": {"conditions": conditions, "allocatable": allocatable}}


def pod(name: str, cpu: str = "100m", **spec: Any) -> dict[str, Any]:
    containers = [{"name": "c", "resources": {"requests": {"cpu": cpu}}}]
    metadata = {"name": name, "namespace": "n", "uid": name, "creationTimestamp": "2024-01-01T00:00:00Z"}
    full = {"schedulerName": "default-scheduler", "containers": containers, **spec}
    return {"metadata": metadata, "spec": full, "status": {"phase": "Pending"}}


def node_of(store: MeteredStore, name: str) -> str | None:
    found: str | None = store.read(PODS, f"n/{name}")["spec"].get("nodeName")
    return found


def condition(store: MeteredStore, name: str) -> tuple[str, ...] | None:
    for item in store.read(PODS, f"n/{name}")["status"].get("conditions") or ():
        if item["type"] == "PodScheduled":
            return tuple(item.get(key, "") for key in ("status", "reason", "message"))
    return None


def events(store: MeteredStore) -> list[tuple[str, str, str]]:
    found = [store.read(EVENTS, record.key) for record in store.collection(EVENTS).select()]
    return sorted((item["regarding"]["name"], item["reason"], item["note"]) for item in found)


def scheduler(store: MeteredStore, clock: FakeClock, release: Release = OLDEST) -> Any:
    return Scheduler(store, Identity(), 3600, build_gates({}, release), clock).run()


async def test_pod_that_fits_is_bound_and_reported(store: MeteredStore, clock: FakeClock) -> None:
    store.put(NODES, node())
    store.put(PODS, pod("web"))
    async with running(store, scheduler(store, clock)):
        await clock.advance(1)

    assert node_of(store, "web") == "n1"
    assert condition(store, "web") == ("True", "", "")
    assert events(store) == [("web", "Scheduled", "Successfully assigned n/web to n1")]


async def test_pod_that_does_not_fit_stays_pending_with_the_reason(store: MeteredStore, clock: FakeClock) -> None:
    store.put(NODES, node())
    store.put(PODS, pod("big", "64"))
    async with running(store, scheduler(store, clock)):
        await clock.advance(1)
        writes = store.writes
        await clock.advance(200)

    assert node_of(store, "big") is None
    assert condition(store, "big") == ("False", "Unschedulable", NO_CPU)
    assert events(store) == [("big", "FailedScheduling", NO_CPU)]
    assert store.writes == writes


@pytest.mark.parametrize(("release", "expected"), [(Release(1, 33), None), (Release(1, 34), 4)])
async def test_condition_has_the_observed_generation_since_1_34(
    store: MeteredStore, clock: FakeClock, release: Release, expected: int | None
) -> None:
    big = pod("big", "64")
    big["metadata"]["generation"] = 4
    store.put(NODES, node())
    store.put(PODS, big)
    async with running(store, scheduler(store, clock, release)):
        await clock.advance(1)

    (found,) = store.read(PODS, "n/big")["status"]["conditions"]
    assert found.get("observedGeneration") == expected


async def test_bound_pod_has_the_topology_labels_of_its_node(store: MeteredStore, clock: FakeClock) -> None:
    made = node()
    made["metadata"]["labels"] = {"topology.kubernetes.io/zone": "a", "other": "b"}
    store.put(NODES, made)
    store.put(PODS, pod("web"))
    async with running(store, scheduler(store, clock, Release(1, 36))):
        await clock.advance(1)

    assert store.read(PODS, "n/web")["metadata"]["labels"] == {"topology.kubernetes.io/zone": "a"}


async def test_bound_pods_reduce_available_resources(store: MeteredStore, clock: FakeClock) -> None:
    store.put(NODES, node(cpu="1"))
    for name in ("a", "b", "c"):
        store.put(PODS, pod(name, "400m"))
    async with running(store, scheduler(store, clock)):
        await clock.advance(1)

    assert [node_of(store, name) for name in ("a", "b", "c")] == ["n1", "n1", None]


async def test_higher_priority_then_older_pods_come_first(store: MeteredStore, clock: FakeClock) -> None:
    young = pod("a-young", "500m")
    young["metadata"]["creationTimestamp"] = "2024-01-02T00:00:00Z"
    for item in (young, pod("b-old", "500m"), pod("c-important", "500m", priority=10)):
        store.put(PODS, item)
    store.put(NODES, node(cpu="1"))
    async with running(store, scheduler(store, clock)):
        await clock.advance(1)

    assert [node_of(store, name) for name in ("a-young", "b-old", "c-important")] == [None, "n1", "n1"]


@pytest.mark.parametrize("change", ["node", "pod deleted", "pod terminated", "pod changed"])
async def test_pending_pod_is_bound_once_it_fits(store: MeteredStore, clock: FakeClock, change: str) -> None:
    running_pod = pod("running", "1500m", nodeName="n1")
    store.put(NODES, node())
    store.put(PODS, running_pod)
    store.put(PODS, pod("web", "1"))
    async with running(store, scheduler(store, clock)):
        await clock.advance(5)
        assert node_of(store, "web") is None
        match change:
            case "node":
                store.put(NODES, node(cpu="4"))
            case "pod deleted":
                store.remove(PODS, "n/running")
            case "pod terminated":
                store.put(PODS, {**running_pod, "status": {"phase": "Succeeded"}})
            case "pod changed":
                store.put(PODS, pod("web", "100m"))
        await clock.advance(2)

    assert node_of(store, "web") == "n1"
    assert condition(store, "web") == ("True", "", "")


async def test_attempts_after_changes_are_delayed(store: MeteredStore, clock: FakeClock) -> None:
    store.put(NODES, node())
    store.put(PODS, pod("big", "64"))
    attempts = 0

    def count(name: str, key: str) -> None:
        nonlocal attempts
        attempts += name == PODS

    async with running(store, scheduler(store, clock)):
        await clock.advance(1)
        store.before_update = count
        for number in range(100):
            store.put(NODES, node(cpu=f"{3 + number}00m"))
            await clock.advance(1)

    assert 5 <= attempts <= 15


async def test_heartbeat_of_the_node_causes_no_attempt(store: MeteredStore, clock: FakeClock) -> None:
    store.put(NODES, node())
    store.put(PODS, pod("big", "64"))
    async with running(store, scheduler(store, clock)):
        await clock.advance(1)
        attempts = 0

        def count(name: str, key: str) -> None:
            nonlocal attempts
            attempts += 1

        store.before_update = count
        for number in range(20):
            store.put(NODES, {**node(), "metadata": {"name": "n1", "annotations": {"beat": str(number)}}})
            await clock.advance(10)

    assert attempts == 0


async def test_reason_changes_with_the_cluster(store: MeteredStore, clock: FakeClock) -> None:
    store.put(NODES, node())
    store.put(PODS, pod("big", "64"))
    async with running(store, scheduler(store, clock)):
        await clock.advance(1)
        since = store.read(PODS, "n/big")["status"]["conditions"][0]["lastTransitionTime"]
        store.put(NODES, node(unschedulable=True))
        await clock.advance(5)

    found = condition(store, "big")
    assert found is not None
    assert "1 node(s) were unschedulable" in found[2]
    assert store.read(PODS, "n/big")["status"]["conditions"][0]["lastTransitionTime"] == since
    assert len(events(store)) == 2


async def test_node_that_is_not_ready_is_reported(store: MeteredStore, clock: FakeClock) -> None:
    store.put(NODES, node(ready="False"))
    store.put(PODS, pod("web"))
    async with running(store, scheduler(store, clock)):
        await clock.advance(1)
        found = condition(store, "web")
        assert found is not None
        assert found[2].startswith(
            "0/1 nodes are available: 1 node(s) had untolerated taint {node.kubernetes.io/not-ready: }. preemption: "
        )
        store.put(NODES, node())
        await clock.advance(2)

    assert node_of(store, "web") == "n1"


async def test_pod_with_toleration_is_bound_to_an_unready_node(store: MeteredStore, clock: FakeClock) -> None:
    store.put(NODES, node(ready="False"))
    store.put(PODS, pod("web", tolerations=[{"operator": "Exists"}]))
    async with running(store, scheduler(store, clock)):
        await clock.advance(1)
    assert node_of(store, "web") == "n1"


async def test_only_ready_node_of_several_is_chosen(store: MeteredStore, clock: FakeClock) -> None:
    store.put(NODES, node("n1", ready="Unknown"))
    store.put(NODES, node("n2"))
    store.put(PODS, pod("web", tolerations=[{"operator": "Exists"}]))
    store.put(PODS, pod("big", "64"))
    async with running(store, scheduler(store, clock)):
        await clock.advance(1)

    assert node_of(store, "web") == "n2"
    found = condition(store, "big")
    assert found is not None
    assert found[2].startswith(
        "0/2 nodes are available: 1 Insufficient cpu, 1 node(s) had untolerated taint {node.kubernetes.io/not-ready: }."
    )


async def test_two_ready_nodes_disable_the_scheduler(store: MeteredStore, clock: FakeClock) -> None:
    for name in ("n1", "n2"):
        store.put(NODES, node(name))
    store.put(PODS, pod("web"))
    store.put(PODS, pod("big", "64"))
    async with running(store, scheduler(store, clock)):
        await clock.advance(100)
        assert store.writes == 4
        store.remove(NODES, "n1")
        await clock.advance(2)

    assert node_of(store, "web") == "n2"


async def test_held_kube_scheduler_lease_disables_the_scheduler(store: MeteredStore, clock: FakeClock) -> None:
    def renew() -> None:
        spec = {"holderIdentity": "host_1", "renewTime": format_time(clock.wall())}
        store.put(LEASES, {"metadata": {"name": SCHEDULER, "namespace": "kube-system"}, "spec": spec})

    renew()
    store.put(NODES, node())
    store.put(PODS, pod("web"))
    async with running(store, scheduler(store, clock)):
        for _ in range(10):
            await clock.advance(10)
            renew()
        assert node_of(store, "web") is None
        await clock.advance(120)

    assert node_of(store, "web") == "n1"


async def test_cluster_without_nodes_causes_no_writes(store: MeteredStore, clock: FakeClock) -> None:
    store.put(PODS, pod("web"))
    async with running(store, scheduler(store, clock)):
        await clock.advance(100)
    assert store.writes == 1


@pytest.mark.parametrize(
    "changes",
    [
        {"schedulerName": "other"},
        {"schedulingGates": [{"name": "example.com/wait"}]},
        {"nodeName": "n2"},
    ],
)
async def test_pods_of_other_schedulers_and_gated_pods_are_ignored(
    store: MeteredStore, clock: FakeClock, changes: dict[str, Any]
) -> None:
    store.put(NODES, node())
    store.put(PODS, pod("web", **changes))
    async with running(store, scheduler(store, clock)):
        await clock.advance(100)
    assert store.writes == 2


async def test_pod_is_bound_when_its_last_gate_is_removed(store: MeteredStore, clock: FakeClock) -> None:
    store.put(NODES, node())
    store.put(PODS, pod("web", schedulingGates=[{"name": "example.com/wait"}]))
    async with running(store, scheduler(store, clock)):
        await clock.advance(5)
        store.put(PODS, pod("web"))
        await clock.advance(1)
    assert node_of(store, "web") == "n1"


async def test_failed_write_is_retried_with_back_off(store: MeteredStore, clock: FakeClock) -> None:
    attempts = 0

    def fail(name: str, key: str) -> None:
        nonlocal attempts
        attempts += name == PODS
        raise StoreUnavailable("disk full")

    store.put(NODES, node())
    store.put(PODS, pod("web"))
    store.before_update = fail
    async with running(store, scheduler(store, clock)):
        for _ in range(100):
            await clock.advance(1)
        assert 8 <= attempts <= 15
        store.before_update = None
        await clock.advance(15)

    assert node_of(store, "web") == "n1"


async def test_thousands_of_unschedulable_pods_are_reported_in_steps(store: MeteredStore, clock: FakeClock) -> None:
    store.put(NODES, node())
    for number in range(2000):
        store.put(PODS, pod(f"big-{number}", "64"))
    async with running(store, scheduler(store, clock)):
        for _ in range(1000):
            await clock.advance(1)
        writes = store.writes
        for _ in range(100):
            await clock.advance(1)

    assert condition(store, "big-1999") == ("False", "Unschedulable", NO_CPU)
    assert store.writes - writes <= 2000


async def test_malformed_pod_does_not_block_other_pods(store: MeteredStore, clock: FakeClock) -> None:
    store.put(NODES, node())
    store.put(PODS, pod("a-odd", affinity={"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": 5}}))
    store.put(PODS, pod("b-web"))
    store.put(PODS, {"metadata": {"name": "c-odd", "namespace": "n", "uid": "c"}, "spec": 5})
    async with running(store, scheduler(store, clock)):
        await clock.advance(5)

    assert node_of(store, "b-web") == "n1"


@pytest.mark.parametrize(
    ("before", "retained"),
    [
        ([{"type": "PodScheduled", "status": "False", "lastTransitionTime": "2020-01-01T00:00:00Z"}], True),
        ([{"type": "PodScheduled", "status": "True", "lastTransitionTime": "2020-01-01T00:00:00Z"}], False),
        ([{"type": "PodScheduled", "status": "False"}], False),
        (None, False),
    ],
)
def test_time_of_the_condition_is_that_of_the_first_failure(before: Any, *, retained: bool) -> None:
    status = {"phase": "Pending"} if before is None else {"phase": "Pending", "conditions": [{"type": "Own"}, *before]}
    found = with_condition({**pod("web"), "status": status}, "Unschedulable", "m")["status"]
    scheduled = found["conditions"][-1]
    assert found["phase"] == "Pending"
    assert [item["type"] for item in found["conditions"]] == (["Own"] if before else []) + ["PodScheduled"]
    assert (scheduled["lastTransitionTime"] == "2020-01-01T00:00:00Z") is retained
    assert scheduled["lastTransitionTime"]


@pytest.mark.parametrize("change", ["replaced", "bound", "deleted"])
async def test_pod_that_changes_before_it_is_bound_is_not_bound(
    store: MeteredStore, clock: FakeClock, change: str
) -> None:
    def interrupt(collection: str, key: str) -> None:
        if collection == PODS:
            store.before_update = None
            other = pod("web", nodeName="other") if change == "bound" else pod("web", schedulerName="other")
            if change == "replaced":
                other = pod("web")
                other["metadata"]["uid"] = "another"
            store.put(PODS, other)
            if change == "deleted":
                store.remove(PODS, key)

    store.put(NODES, node())
    store.put(PODS, pod("web"))
    store.before_update = interrupt
    async with running(store, scheduler(store, clock)):
        await clock.advance(0)
        first = store.read(PODS, "n/web")
    assert first is None if change == "deleted" else first["spec"].get("nodeName") != "n1" or change == "replaced"
    assert ("web", "Scheduled", "Successfully assigned n/web to n1") not in events(store) or change == "replaced"


async def test_labels_of_namespaces_select_pods_for_affinity(store: MeteredStore, clock: FakeClock) -> None:
    term = {
        "topologyKey": "kubernetes.io/hostname",
        "labelSelector": {"matchLabels": {"app": "db"}},
        "namespaceSelector": {"matchLabels": {"team": "a"}},
    }
    affinity = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    labeled = node()
    labeled["metadata"]["labels"] = {"kubernetes.io/hostname": "n1"}
    store.put(NODES, labeled)
    store.put("core/namespaces", {"metadata": {"name": "dbs", "labels": {"team": "a"}}})
    other = pod("db", nodeName="n1")
    other["metadata"] |= {"namespace": "dbs", "labels": {"app": "db"}}
    store.put(PODS, other)
    store.put(PODS, pod("web", affinity=affinity))
    async with running(store, scheduler(store, clock)):
        await clock.advance(1)
    assert node_of(store, "web") == "n1"

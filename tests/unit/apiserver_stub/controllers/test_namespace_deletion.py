"""Tests for namespace deletion: a namespace is removed once it is empty and has no finalizers."""

from __future__ import annotations

from typing import Any

import pytest

from apiserver_stub.apimachinery.status import ApiError
from apiserver_stub.controllers.namespace_deletion import NamespaceDeletion
from apiserver_stub.kinds.namespaces import NamespaceStrategy
from apiserver_stub.verbs.preparation import finished
from nodeagent.base.identity import Identity
from nodeagent.testing import FakeClock
from tests.unit.apiserver_stub.controllers.harness import (
    REGISTRY,
    KeepsMaps,
    MeteredStore,
    context,
    rest,
    running,
    store,
)

__all__ = ["store"]

NAMESPACES, MAPS, PODS = "core/namespaces", "core/configmaps", "core/pods"
LEASES = "coordination.k8s.io/leases"
POLICIES = "networking.k8s.io/networkpolicies"


def namespace(*spec: str, metadata: list[str] | None = None) -> dict[str, Any]:
    held = {"finalizers": metadata} if metadata else {}
    deleted = {"name": "gone", "uid": "1", "deletionTimestamp": "2026-01-01T00:00:00Z", **held}
    return {"metadata": deleted, "spec": {"finalizers": list(spec)}}


def config_map(name: str, **metadata: Any) -> dict[str, Any]:
    return {"metadata": {"name": name, "namespace": "gone", "uid": name, **metadata}}


async def processed(store: MeteredStore, clock: FakeClock, *, seconds: float = 5) -> None:
    async with running(store, NamespaceDeletion(context(store), REGISTRY, Identity(), clock).run()):
        await rest(store)
        await clock.advance(seconds)


async def test_empty_namespace_is_deleted(store: MeteredStore, clock: FakeClock) -> None:
    store.put(NAMESPACES, namespace("kubernetes"))

    await processed(store, clock)

    assert store.read(NAMESPACES, "gone") is None


async def test_admission_can_reject_the_deletion_of_contents(store: MeteredStore, clock: FakeClock) -> None:
    plugin = KeepsMaps()
    store.put(MAPS, config_map("kept"))
    store.put(NAMESPACES, namespace("kubernetes"))
    async with running(store, NamespaceDeletion(context(store, plugin), REGISTRY, Identity(), clock).run()):
        await rest(store)
        await clock.advance(5)
        assert store.read(MAPS, "gone/kept") is not None
        conditions = {each["type"]: each for each in store.read(NAMESPACES, "gone")["status"]["conditions"]}
        assert "config maps are kept" in conditions["NamespaceDeletionContentFailure"]["message"]

        plugin.rejects = False
        await clock.advance(60)

    assert store.read(NAMESPACES, "gone") is None
    assert plugin.users == {"system:serviceaccount:kube-system:namespace-controller"}


async def test_contents_are_deleted_before_the_namespace(store: MeteredStore, clock: FakeClock) -> None:
    for number in range(2000):
        store.put(MAPS, config_map(f"c{number}"))
    store.put(MAPS, {"metadata": {"name": "other", "namespace": "stays", "uid": "other"}})
    store.put(NAMESPACES, namespace("kubernetes"))

    await processed(store, clock)

    assert store.read(NAMESPACES, "gone") is None
    assert [record.key for record in store.collection(MAPS).select()] == ["stays/other"]
    assert store.writes == 2 * 2001 + 1


@pytest.mark.parametrize(
    "held",
    [namespace("kubernetes", metadata=["example.com/hold"]), namespace("kubernetes", "example.com/hold")],
    ids=["metadata", "spec"],
)
async def test_namespace_with_finalizers_is_written_once(
    store: MeteredStore, clock: FakeClock, held: dict[str, Any]
) -> None:
    store.put(NAMESPACES, held)

    await processed(store, clock)

    assert "kubernetes" not in store.read(NAMESPACES, "gone")["spec"]["finalizers"]
    assert store.writes == 2


async def test_namespace_with_finalizers_and_no_spec_is_written_once(store: MeteredStore, clock: FakeClock) -> None:
    held = namespace(metadata=["example.com/hold"])
    del held["spec"]
    store.put(NAMESPACES, held)

    await processed(store, clock, seconds=100)

    assert store.writes == 2
    assert {item["status"] for item in store.read(NAMESPACES, "gone")["status"]["conditions"]} == {"False"}


def conditions(store: MeteredStore) -> dict[str, str]:
    """Return the messages of the conditions that are true, by type."""
    found = store.read(NAMESPACES, "gone")["status"]["conditions"]
    assert len(found) == 5
    return {item["type"]: item["message"] for item in found if item["status"] == "True"}


async def test_conditions_name_the_remaining_contents(store: MeteredStore, clock: FakeClock) -> None:
    for name, finalizers in (("a", ["example.com/hold"]), ("b", ["example.com/hold", "example.com/other"])):
        store.put(MAPS, config_map(name, finalizers=finalizers))
    store.put(POLICIES, {"metadata": config_map("p", finalizers=["example.com/other"])["metadata"]})
    store.put(NAMESPACES, {**namespace("kubernetes", "example.com/last"), "status": {"phase": "Terminating"}})

    async with running(store, NamespaceDeletion(context(store), REGISTRY, Identity(), clock).run()):
        await rest(store)
        await clock.advance(1)
        assert conditions(store) == {
            "NamespaceContentRemaining": "Some resources are remaining: configmaps. has 2 resource instances, "
            "networkpolicies.networking.k8s.io has 1 resource instances",
            "NamespaceFinalizersRemaining": "Some finalizers are remaining: example.com/hold in 2 resource instances, "
            "example.com/other in 2 resource instances",
        }
        since = {
            item["type"]: item["lastTransitionTime"] for item in store.read(NAMESPACES, "gone")["status"]["conditions"]
        }
        store.remove(MAPS, "gone/b")
        await rest(store)
        await clock.advance(3)
        assert "configmaps. has 1 resource" in conditions(store)["NamespaceContentRemaining"]
        found = store.read(NAMESPACES, "gone")["status"]
        assert {item["type"]: item["lastTransitionTime"] for item in found["conditions"]} == since
        store.remove(MAPS, "gone/a")
        store.remove(POLICIES, "gone/p")
        await rest(store)
        await clock.advance(3)

    assert conditions(store) == {}
    assert store.read(NAMESPACES, "gone")["status"]["phase"] == "Terminating"
    assert store.read(NAMESPACES, "gone")["spec"]["finalizers"] == ["example.com/last"]


async def test_conditions_are_updated_at_most_every_two_seconds(store: MeteredStore, clock: FakeClock) -> None:
    for number in range(20):
        store.put(MAPS, config_map(f"c{number}", finalizers=["example.com/hold"]))
    store.put(NAMESPACES, namespace("kubernetes"))

    async with running(store, NamespaceDeletion(context(store), REGISTRY, Identity(), clock).run()):
        await rest(store)
        await clock.advance(1)
        before = store.writes
        for number in range(19):
            store.remove(MAPS, f"gone/c{number}")
            await rest(store)
            await clock.advance(0.5)
        await clock.advance(3)

    assert store.writes - before <= 19 + 6
    assert "configmaps. has 1 resource" in conditions(store)["NamespaceContentRemaining"]


async def test_conditions_name_failed_deletions(store: MeteredStore, clock: FakeClock) -> None:
    def reject(name: str, key: str) -> None:
        if name == MAPS:
            raise ApiError(403, "Forbidden", "denied by a policy")

    for number in range(200):
        store.put(MAPS, config_map(f"c{number}"))
    store.put(NAMESPACES, namespace("kubernetes"))
    store.before_update = reject

    await processed(store, clock)

    assert conditions(store)["NamespaceDeletionContentFailure"] == (
        "Failed to delete all resource types, 1 remaining: denied by a policy"
    )


async def test_running_controller_manager_sets_the_conditions(store: MeteredStore, clock: FakeClock) -> None:
    lease = {
        "metadata": {"name": "kube-controller-manager", "namespace": "kube-system", "uid": "l"},
        "spec": {
            "holderIdentity": "manager",
            "leaseDurationSeconds": 15,
            "renewTime": f"{clock.wall():%Y-%m-%dT%H:%M:%S.%f}Z",
        },
    }
    store.put(LEASES, lease)
    store.put(MAPS, config_map("a", finalizers=["example.com/hold"]))
    store.put(NAMESPACES, namespace("kubernetes"))

    await processed(store, clock)

    assert "status" not in store.read(NAMESPACES, "gone")


async def test_contents_with_finalizers_are_deleted_once_and_awaited(store: MeteredStore, clock: FakeClock) -> None:
    for number in range(500):
        store.put(MAPS, config_map(f"c{number}", finalizers=["example.com/hold"]))
    store.put(NAMESPACES, namespace("kubernetes"))

    async with running(store, NamespaceDeletion(context(store), REGISTRY, Identity(), clock).run()):
        await rest(store)
        await clock.advance(200)
        assert store.writes == 501 + 500 + 1
        for number in range(500):
            store.remove(MAPS, f"gone/c{number}")
        await rest(store)
        await clock.advance(1)

    assert store.read(NAMESPACES, "gone") is None


async def test_policies_are_deleted_after_the_last_pod(store: MeteredStore, clock: FakeClock) -> None:
    spec = {"nodeName": "n1", "containers": []}
    store.put(PODS, {"metadata": {"name": "web", "namespace": "gone", "uid": "web"}, "spec": spec})
    store.put(POLICIES, {"metadata": {"name": "isolated", "namespace": "gone", "uid": "isolated"}})
    store.put(NAMESPACES, namespace("kubernetes"))

    async with running(store, NamespaceDeletion(context(store), REGISTRY, Identity(), clock).run()):
        await rest(store)
        await clock.advance(100)
        assert "deletionTimestamp" in store.read(PODS, "gone/web")["metadata"]
        assert store.read(POLICIES, "gone/isolated") is not None
        store.remove(PODS, "gone/web")
        await rest(store)
        await clock.advance(1)

    assert store.read(POLICIES, "gone/isolated") is None
    assert store.read(NAMESPACES, "gone") is None


async def test_foreground_deletion_of_contents_does_not_wait(store: MeteredStore, clock: FakeClock) -> None:
    deleting = {"deletionTimestamp": "2026-01-01T00:00:00Z", "deletionGracePeriodSeconds": 0}
    store.put(MAPS, config_map("owner", finalizers=["foregroundDeletion"], **deleting))
    store.put(NAMESPACES, namespace("kubernetes"))

    await processed(store, clock)

    assert store.read(NAMESPACES, "gone") is None


@pytest.mark.parametrize(
    ("old", "new", "goes"),
    [
        (namespace("kubernetes", metadata=["example.com/hold"]), namespace("kubernetes"), False),
        (namespace("kubernetes"), namespace(), True),
        (namespace(metadata=["example.com/hold"]), namespace(), True),
        (namespace("kubernetes", metadata=["example.com/hold"]), namespace(metadata=["example.com/hold"]), False),
    ],
)
def test_last_finalizer_of_either_kind_completes_the_deletion(
    old: dict[str, Any], new: dict[str, Any], *, goes: bool
) -> None:
    assert finished(NamespaceStrategy(Identity()), new, old) is goes

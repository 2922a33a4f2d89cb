"""Tests for namespace deletion: a namespace is removed once it is empty and has no finalizers."""

from __future__ import annotations

from typing import Any

import pytest

from apiserver_stub.controllers.namespace_deletion import NamespaceDeletion
from apiserver_stub.kinds.namespaces import NamespaceStrategy
from apiserver_stub.verbs.preparation import finished
from nodeagent.base.identity import Identity
from nodeagent.testing import FakeClock
from tests.unit.apiserver_stub.controllers.harness import REGISTRY, MeteredStore, context, rest, running, store

__all__ = ["store"]

NAMESPACES, MAPS, PODS = "core/namespaces", "core/configmaps", "core/pods"
POLICIES = "networking.k8s.io/networkpolicies"


def namespace(*spec: str, metadata: list[str] | None = None) -> dict[str, Any]:
    held = {"finalizers": metadata} if metadata else {}
    deleted = {"name": "gone", "uid": "1", "deletionTimestamp": "2026-01-01T00:00:00Z", **held}
    return {"metadata": deleted, "spec": {"finalizers": list(spec)}}


def config_map(name: str, **metadata: Any) -> dict[str, Any]:
    return {"metadata": {"name": name, "namespace": "gone", "uid": name, **metadata}}


async def processed(store: MeteredStore, clock: FakeClock, *, seconds: float = 5) -> None:
    async with running(store, NamespaceDeletion(context(store), REGISTRY, clock).run()):
        await rest(store)
        await clock.advance(seconds)


async def test_empty_namespace_is_deleted(store: MeteredStore, clock: FakeClock) -> None:
    store.put(NAMESPACES, namespace("kubernetes"))

    await processed(store, clock)

    assert store.read(NAMESPACES, "gone") is None


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


async def test_namespace_with_finalizers_and_no_spec_is_not_written(store: MeteredStore, clock: FakeClock) -> None:
    held = namespace(metadata=["example.com/hold"])
    del held["spec"]
    store.put(NAMESPACES, held)

    await processed(store, clock)

    assert store.writes == 1


async def test_contents_with_finalizers_are_deleted_once_and_awaited(store: MeteredStore, clock: FakeClock) -> None:
    for number in range(500):
        store.put(MAPS, config_map(f"c{number}", finalizers=["example.com/hold"]))
    store.put(NAMESPACES, namespace("kubernetes"))

    async with running(store, NamespaceDeletion(context(store), REGISTRY, clock).run()):
        await rest(store)
        await clock.advance(200)
        assert store.writes == 501 + 500
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

    async with running(store, NamespaceDeletion(context(store), REGISTRY, clock).run()):
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

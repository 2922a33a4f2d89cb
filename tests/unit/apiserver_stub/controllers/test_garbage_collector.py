"""Tests for the garbage collector: deletions complete as upstream, also in cycles, and without busy loops."""

from __future__ import annotations

import asyncio
import gc
import weakref
from types import SimpleNamespace
from typing import Any

import pytest

from apiserver_stub.controllers.garbage_collector import FOREGROUND, ORPHAN, GarbageCollector
from apiserver_stub.controllers.namespace_deletion import NamespaceDeletion
from apiserver_stub.kinds.registry import Registry, Resource, Strategy
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

MAPS = "core/configmaps"


def config_map(name: str, *owners: str, blocks: bool = True, deletes: str = "", **metadata: Any) -> dict[str, Any]:
    """Return a config map with its name as UID; *deletes* marks it as deleted with a propagation finalizer."""
    references = [
        {"apiVersion": "v1", "kind": "ConfigMap", "name": owner, "uid": owner, "blockOwnerDeletion": blocks}
        for owner in owners
    ]
    found: dict[str, Any] = {"name": name, "namespace": "n", "uid": name, **metadata}
    if references:
        found["ownerReferences"] = references
    if deletes:
        found |= {"deletionTimestamp": "2024-01-01T00:00:00Z", "deletionGracePeriodSeconds": 0}
        found["finalizers"] = [*deletes.split(","), *found.get("finalizers", ())]
    return {"metadata": found}


def left(store: MeteredStore) -> list[str]:
    return [record.key.partition("/")[2] for record in store.collection(MAPS).select()]


def delete(store: MeteredStore, name: str, *finalizers: str) -> None:
    """Mark the config map as deleted with *finalizers*, as a client's request does."""
    obj = store.read(MAPS, f"n/{name}")
    metadata = obj["metadata"]
    metadata |= {"deletionTimestamp": "2024-01-01T00:00:00Z", "deletionGracePeriodSeconds": 0}
    metadata["finalizers"] = [*metadata.get("finalizers", ()), *finalizers]
    store.put(MAPS, obj)


async def collected(store: MeteredStore) -> None:
    """Run the collector until it is idle."""
    async with running(store, GarbageCollector(context(store), REGISTRY, Identity()).run()):
        await rest(store)


async def test_admission_can_reject_the_deletion_of_a_dependent(store: MeteredStore, clock: FakeClock) -> None:
    plugin = KeepsMaps()
    store.put(MAPS, config_map("dependent", "missing"))
    async with running(store, GarbageCollector(context(store, plugin), REGISTRY, Identity(), clock).run()):
        await rest(store)
        assert left(store) == ["dependent"]

        plugin.rejects = False
        await clock.advance(60)
        await rest(store)

    assert left(store) == []
    assert plugin.users == {"system:serviceaccount:kube-system:generic-garbage-collector"}


@pytest.mark.parametrize("length", [2, 3, 7])
@pytest.mark.parametrize("stored_before_start", [True, False])
async def test_cycle_deleted_in_the_foreground_is_deleted(
    store: MeteredStore, length: int, *, stored_before_start: bool
) -> None:
    for number in range(length):
        store.put(MAPS, config_map(f"o{number}", f"o{(number + 1) % length}"))
    if stored_before_start:
        delete(store, "o0", FOREGROUND)

    async with running(store, GarbageCollector(context(store), REGISTRY, Identity()).run()):
        await rest(store)
        if not stored_before_start:
            assert len(left(store)) == length
            delete(store, "o0", FOREGROUND)
        await rest(store)

    assert left(store) == []
    assert store.writes <= length * 5


async def test_cycle_that_does_not_block_is_deleted(store: MeteredStore) -> None:
    store.put(MAPS, config_map("a", "b", blocks=False, deletes=FOREGROUND))
    store.put(MAPS, config_map("b", "a", blocks=False))

    await collected(store)

    assert left(store) == []


async def test_object_that_owns_itself_is_deleted(store: MeteredStore) -> None:
    store.put(MAPS, config_map("self", "self", deletes=FOREGROUND))

    await collected(store)

    assert left(store) == []
    assert store.writes == 3


@pytest.mark.parametrize("length", [2, 3])
async def test_cycle_whose_objects_are_all_deleted_together_is_deleted(store: MeteredStore, length: int) -> None:
    for number in range(length):
        store.put(MAPS, config_map(f"o{number}", f"o{(number + 1) % length}", deletes=FOREGROUND))

    await collected(store)

    assert left(store) == []


async def test_cycle_with_another_finalizer_waits_without_writes(store: MeteredStore) -> None:
    store.put(MAPS, config_map("a", "b", deletes=FOREGROUND))
    store.put(MAPS, config_map("b", "a", finalizers=["example.com/hold"]))

    async with running(store, GarbageCollector(context(store), REGISTRY, Identity()).run()):
        await rest(store)
        writes = store.writes
        await rest(store, turns=1000)

    assert left(store) == ["b"]
    assert store.writes == writes


async def test_object_in_two_cycles_is_deleted(store: MeteredStore) -> None:
    store.put(MAPS, config_map("hub", "left", "right", deletes=FOREGROUND))
    store.put(MAPS, config_map("left", "hub"))
    store.put(MAPS, config_map("right", "hub"))

    await collected(store)

    assert left(store) == []


async def test_orphaned_owner_of_a_cycle_releases_its_dependents_and_is_deleted(store: MeteredStore) -> None:
    store.put(MAPS, config_map("a", "b", deletes=ORPHAN))
    store.put(MAPS, config_map("b", "a"))

    await collected(store)

    assert left(store) == ["b"]
    assert "ownerReferences" not in store.read(MAPS, "n/b")["metadata"]


async def test_orphaning_takes_precedence_over_foreground_deletion(store: MeteredStore) -> None:
    store.put(MAPS, config_map("a", deletes=f"{FOREGROUND},{ORPHAN}"))
    store.put(MAPS, config_map("b", "a"))

    await collected(store)

    assert left(store) == ["b"]
    assert "ownerReferences" not in store.read(MAPS, "n/b")["metadata"]


async def test_dependent_with_an_orphan_finalizer_releases_its_own_dependents(store: MeteredStore) -> None:
    store.put(MAPS, config_map("child", "never-was", finalizers=[ORPHAN]))
    store.put(MAPS, config_map("grandchild", "child"))

    await collected(store)

    assert left(store) == ["grandchild"]
    assert "ownerReferences" not in store.read(MAPS, "n/grandchild")["metadata"]


async def test_owner_of_an_unknown_kind_keeps_every_reference(store: MeteredStore) -> None:
    child = config_map("child", "never-was")
    child["metadata"]["ownerReferences"].append({"apiVersion": "example.com/v1", "kind": "X", "name": "x", "uid": "x"})
    store.put(MAPS, child)

    await collected(store)

    assert store.read(MAPS, "n/child")["metadata"]["ownerReferences"] == child["metadata"]["ownerReferences"]
    assert store.writes == 1


async def test_resource_is_dropped_when_it_is_neither_served_nor_stored(store: MeteredStore) -> None:
    widgets = Resource("example.com", "v1", "Widget", "widgets")
    registry = Registry([*REGISTRY])
    registry.replace("widgets", [widgets])
    collector, left_behind = GarbageCollector(context(store), registry, Identity()), weakref.ref(widgets)
    del widgets

    store.put("example.com/widgets", config_map("a", "never-was"))
    registry.replace("widgets", [])
    gc.collect()
    assert left_behind() is not None
    async with running(store, collector.run()):
        await rest(store)
        assert len(store.collection("example.com/widgets")) == 0
        registry.replace("others", [Resource("example.com", "v1", "Other", "others")])
        gc.collect()
        assert left_behind() is None


@pytest.mark.parametrize("controller", [GarbageCollector, NamespaceDeletion])
async def test_controller_that_has_ended_is_not_retained(store: MeteredStore, controller: Any) -> None:
    registry = Registry([*REGISTRY])

    async def run() -> weakref.ref[Any]:
        made = controller(context(store), registry, Identity())
        task = asyncio.ensure_future(made.run())
        await rest(store)
        task.cancel()
        await asyncio.wait({task})
        return weakref.ref(made)

    left_behind = await run()
    gc.collect()

    assert left_behind() is None


async def test_cluster_object_of_a_namespaced_owner_is_kept(store: MeteredStore) -> None:
    node = config_map("node", "owner")
    del node["metadata"]["namespace"]
    store.put("core/nodes", node)

    await collected(store)

    assert store.read("core/nodes", "node") is not None


@pytest.mark.parametrize("finalizer", [FOREGROUND, ORPHAN])
async def test_thousands_of_dependents_are_processed_in_steps(store: MeteredStore, finalizer: str) -> None:
    store.put(MAPS, config_map("owner", deletes=finalizer))
    for number in range(3000):
        store.put(MAPS, config_map(f"d{number}", "owner"))

    async with running(store, GarbageCollector(context(store), REGISTRY, Identity()).run()):
        await rest(store, turns=1000)

    assert len(left(store)) == (0 if finalizer == FOREGROUND else 3000)
    assert store.writes <= 3001 + 3001
    assert store.turns > 100


async def test_changes_of_an_owned_object_cause_no_work(store: MeteredStore) -> None:
    store.put(MAPS, config_map("owner"))
    store.put(MAPS, config_map("child", "owner"))

    async with running(store, GarbageCollector(context(store), REGISTRY, Identity()).run()):
        await rest(store)
        for number in range(20):
            store.put(MAPS, {**config_map("child", "owner"), "data": {"number": str(number)}})
            await rest(store, turns=5)

    assert store.writes == 22


async def test_failed_deletion_is_retried_with_back_off(store: MeteredStore, clock: Any) -> None:
    from apiserver_stub.storage import StoreUnavailable

    store.put(MAPS, config_map("child", "never-was"))
    attempts = 0

    def fail(name: str, key: str) -> None:
        nonlocal attempts
        attempts += 1
        raise StoreUnavailable("disk full")

    store.before_update = fail
    async with running(store, GarbageCollector(context(store), REGISTRY, Identity(), clock).run()):
        for _ in range(100):
            await clock.advance(1)
        assert 8 <= attempts <= 15
        store.before_update = None
        await clock.advance(70)

    assert left(store) == []


async def test_object_that_is_deleted_already_is_not_deleted_again(store: MeteredStore) -> None:
    store.put(MAPS, config_map("child", "never-was", deletes="example.com/hold"))

    await collected(store)

    assert store.writes == 1


async def test_events_and_served_kinds_without_deletion_are_not_collected(store: MeteredStore) -> None:
    event = config_map("event", "never-was")
    store.put("core/events", event)
    review = Resource("example.com", "v1", "Review", "reviews", verbs=("create",))
    registry = Registry([*REGISTRY])
    registry.replace("reviews", [review])
    store.put("example.com/reviews", config_map("review", "never-was"))

    async with running(store, GarbageCollector(context(store), registry, Identity()).run()):
        await rest(store)

    assert store.read("core/events", "n/event") is not None
    assert store.read("example.com/reviews", "n/review") is not None


@pytest.mark.parametrize("seconds", [0, 30, None])
async def test_object_in_its_grace_period_is_not_removed_with_its_finalizer(
    store: MeteredStore, seconds: int | None
) -> None:
    owner = config_map("a", deletes=FOREGROUND)
    owner["metadata"]["deletionGracePeriodSeconds"] = seconds
    store.put(MAPS, owner)

    await collected(store)

    assert left(store) == (["a"] if seconds else [])


async def test_foreground_finalizer_of_an_object_without_deletion_remains(store: MeteredStore) -> None:
    store.put(MAPS, config_map("a", finalizers=[FOREGROUND]))
    store.put(MAPS, config_map("b", "a", blocks=True))

    await collected(store)

    assert left(store) == ["a", "b"]
    assert store.writes == 2


@pytest.mark.parametrize(
    ("name", "deletes", "change"),
    [
        ("b", ORPHAN, "removed"),
        ("b", ORPHAN, "replaced"),
        ("a", FOREGROUND, "removed"),
        ("a", FOREGROUND, "replaced"),
        ("b", FOREGROUND, "removed"),
    ],
)
async def test_object_that_others_delete_concurrently_is_not_reported(
    store: MeteredStore, caplog: pytest.LogCaptureFixture, name: str, deletes: str, change: str
) -> None:
    def interrupt(collection: str, key: str) -> None:
        if collection == MAPS and key == f"n/{name}":
            store.before_update = None
            store.remove(collection, key)
            if change == "replaced":
                store.put(MAPS, {"metadata": {"name": name, "namespace": "n", "uid": "another"}})

    store.put(MAPS, config_map("a", deletes=deletes))
    store.put(MAPS, config_map("b", "a"))
    store.before_update = interrupt

    await collected(store)

    assert caplog.messages == []
    if change == "replaced":
        assert store.read(MAPS, f"n/{name}")["metadata"]["uid"] == "another"


class Reserving(Strategy):
    """Strategy of a kind whose objects allocate something."""

    reserves = True

    def __init__(self) -> None:
        self.released: list[str] = []

    async def reserve(self, store: Any, new: Any, old: Any, *, dry_run: bool = False) -> Any:
        async def keep() -> None:
            self.released.append(old["metadata"]["name"])

        return SimpleNamespace(keep=keep)


@pytest.mark.parametrize(("finalizers", "expected"), [(FOREGROUND, ["a"]), (f"{FOREGROUND},example.com/hold", [])])
async def test_allocations_are_released_with_the_object(
    store: MeteredStore, finalizers: str, expected: list[str]
) -> None:
    strategy = Reserving()
    registry = Registry([*REGISTRY])
    registry.replace("things", [Resource("example.com", "v1", "Thing", "things", strategy=strategy)])
    store.put("example.com/things", config_map("a", deletes=finalizers))

    async with running(store, GarbageCollector(context(store), registry, Identity()).run()):
        await rest(store)

    assert strategy.released == expected

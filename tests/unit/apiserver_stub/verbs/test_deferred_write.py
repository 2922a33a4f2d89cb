"""Tests for writes with an asynchronous decision."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from apiserver_stub.apimachinery import objects
from apiserver_stub.storage import Outcome, Put, Record, Remove
from apiserver_stub.storage.collection import Collection
from apiserver_stub.verbs import deferred_write
from tests.unit.apiserver_stub.authz.conftest import Memory


class SharedMemory(Memory):
    """Store to which another server writes: until the next update, readers do not see what it has written."""

    def __init__(self) -> None:
        super().__init__()
        self.outdated = False
        self.updates = 0

    def is_shared(self, name: str) -> bool:
        return True

    def collection(self, name: str) -> Collection:
        return Collection(name, 0) if self.outdated else super().collection(name)

    async def update(self, name: str, key: str, decide: Callable[[Record | None], Outcome]) -> Record:
        self.outdated = False
        self.updates += 1
        return await super().update(name, key, decide)


def config_map(value: str) -> bytes:
    metadata = {"name": "a", "namespace": "n"}
    return objects.encode_for_store(
        {"kind": "ConfigMap", "apiVersion": "v1", "metadata": metadata, "data": {"k": value}}
    )


@pytest.mark.parametrize(("removes", "revision"), [(True, 1), (False, 2)])
async def test_removed_record_has_its_previous_revision(removes: bool, revision: int) -> None:
    store: Any = Memory()
    store.put("core/configmaps", {"metadata": {"name": "a", "namespace": "n"}})

    async def plan(current: Record | None) -> Outcome:
        assert current is not None and current.revision == 1
        return Remove(config_map("x")) if removes else Put(config_map("x"))

    found = await deferred_write.write(store, "core/configmaps", "n/a", plan)

    assert (found.revision, objects.decode(found.data)["metadata"]["resourceVersion"]) == (revision, str(revision))
    assert (store.read("core/configmaps", "n/a") is None) is removes


async def test_plan_is_made_again_after_a_concurrent_write() -> None:
    store: Any = Memory()
    seen: list[int] = []

    async def plan(current: Record | None) -> Outcome:
        seen.append(0 if current is None else current.revision)
        if len(seen) < 3:
            store.put("core/configmaps", {"metadata": {"name": "a", "namespace": "n"}})
        return Put(config_map("x"))

    found = await deferred_write.write(store, "core/configmaps", "n/a", plan)

    assert (seen, found.revision) == ([0, 1, 2], 3)


async def test_record_of_a_shared_store_is_not_read_before_it_is_replaced() -> None:
    store: Any = SharedMemory()
    seen: list[int] = []

    async def plan(current: Record | None) -> Outcome:
        seen.append(0 if current is None else current.revision)
        return Put(config_map("x"))

    await deferred_write.write(store, "core/configmaps", "n/a", plan)

    assert (seen, store.updates) == ([0], 1)


async def test_plan_for_an_outdated_record_of_a_shared_store_is_made_again() -> None:
    store: Any = SharedMemory()
    store.put("core/configmaps", {"metadata": {"name": "a", "namespace": "n"}})
    store.outdated = True
    seen: list[int] = []

    async def plan(current: Record | None) -> Outcome:
        seen.append(0 if current is None else current.revision)
        if current is None:
            raise LookupError("not found")
        return Put(config_map("x"))

    found = await deferred_write.write(store, "core/configmaps", "n/a", plan)

    assert (seen, found.revision) == ([0, 1], 2)


async def test_error_for_the_current_record_of_a_shared_store_is_propagated() -> None:
    store: Any = SharedMemory()
    seen: list[Record | None] = []

    async def plan(current: Record | None) -> Outcome:
        seen.append(current)
        raise LookupError("not found")

    with pytest.raises(LookupError, match="not found"):
        await deferred_write.write(store, "core/configmaps", "n/a", plan)

    assert seen == [None]

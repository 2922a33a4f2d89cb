"""Tests for the conversion of records between the requested and the storage version."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from apiserver_stub.apimachinery import objects
from apiserver_stub.apimachinery.objects import Object
from apiserver_stub.kinds.registry import Resource
from apiserver_stub.storage import Change, Keep, Outcome, Put, Record
from apiserver_stub.storage.record import with_revision
from apiserver_stub.verbs import versions
from tests.unit.apiserver_stub.authz.conftest import Memory


class Swap:
    """Converter that moves the value of ``spec`` to the field of the version."""

    def __init__(self) -> None:
        self.sizes: list[int] = []

    async def convert(self, found: Sequence[Object], api_version: str) -> list[Object]:
        self.sizes.append(len(found))
        field = api_version.rpartition("/")[2]
        return [{**obj, "apiVersion": api_version, "spec": {field: next(iter(obj["spec"].values()))}} for obj in found]


class OneRecord:
    """Store of one record."""

    def __init__(self, record: Record) -> None:
        self.record = record

    def is_shared(self, name: str) -> bool:
        return False

    async def update(self, name: str, key: str, decide: Any) -> Record:
        outcome = decide(self.record)
        if isinstance(outcome, Put):
            revision = self.record.revision + 1
            self.record = Record(key, revision, with_revision(outcome.data, revision))
        return self.record


def resource(version: str = "v2", storage: str = "v1") -> Resource:
    return Resource("g", version, "W", "ws", converter=Swap(), hashed_version=storage)


def record(name: str, version: str, value: str = "x", revision: int = 7) -> Record:
    obj = {"kind": "W", "apiVersion": f"g/{version}", "metadata": {"name": name}, "spec": {version: value}}
    return Record(name, revision, with_revision(objects.encode(obj), revision))


def spec(found: Record) -> Any:
    return objects.decode(found.data)["spec"]


async def test_records_of_other_versions_are_converted_together() -> None:
    kind = resource()
    found = [record("a", "v1"), record("b", "v2"), record("c", "v1")]

    result = await versions.records(kind, found)

    assert [(item.key, item.revision, spec(item)) for item in result] == [
        ("a", 7, {"v2": "x"}), ("b", 7, {"v2": "x"}), ("c", 7, {"v2": "x"}),
    ]  # fmt: skip
    assert (kind.converter.sizes, result[1] is found[1]) == ([2], True)  # type: ignore[union-attr]
    assert all(item.data.startswith(kind.head) for item in result)
    assert '"resourceVersion":"7"' in result[0].data.decode()


async def test_large_records_are_converted_in_several_calls() -> None:
    kind = resource()
    await versions.records(kind, [record(name, "v1", "x" * 1_200_000) for name in "abc"])
    assert kind.converter.sizes == [1, 1, 1]  # type: ignore[union-attr]


async def test_kinds_without_a_converter_are_unchanged() -> None:
    found = [record("a", "v1")]
    assert await versions.records(replace(resource(), converter=None), found) is found


async def test_changes() -> None:
    changed = Change("MODIFIED", record("a", "v1"), record("a", "v1", "y"))
    same = Change("ADDED", record("b", "v2"), None)

    first, second = await versions.changes(resource(), [changed, same], previous=True)

    assert (spec(first.record), first.previous and spec(first.previous)) == ({"v2": "x"}, {"v2": "y"})
    assert second is same


async def test_writes_store_the_storage_version() -> None:
    store: Any = OneRecord(record("a", "v1"))

    async def plan(current: Record | None) -> Outcome:
        assert current is not None
        obj = objects.decode(current.data)
        return Put(objects.encode_for_store({**obj, "spec": {"v2": obj["spec"]["v2"] + "y"}}))

    result = await versions.write(store, resource(), "a", plan)

    assert (spec(store.record), spec(result), result.revision) == ({"v1": "xy"}, {"v2": "xy"}, 8)


async def test_writes_without_change_move_to_the_storage_version() -> None:
    store: Any = OneRecord(record("a", "v1"))

    async def plan(current: Record | None) -> Outcome:
        return Keep()

    await versions.write(store, resource(storage="v1"), "a", plan)
    assert store.record.revision == 7
    await versions.write(store, resource(storage="v2"), "a", plan)
    assert (store.record.revision, spec(store.record)) == (8, {"v2": "x"})


async def test_decoded_object_is_converted_to_the_requested_version() -> None:
    obj = objects.decode(record("a", "v1").data)

    assert (await versions.document(resource("v2"), obj))["spec"] == {"v2": "x"}
    assert await versions.document(resource("v1"), obj) is obj
    assert await versions.document(Resource("g", "v2", "W", "ws"), obj) is obj


@pytest.mark.parametrize(("more", "sizes"), [(0, [2, 1]), (-1, [1, 1, 1])])
async def test_records_are_converted_in_batches_of_limited_size(
    monkeypatch: pytest.MonkeyPatch, more: int, sizes: list[int]
) -> None:
    kind, found = resource(), [record(name, "v1") for name in "abc"]
    converter: Any = kind.converter
    monkeypatch.setattr(versions, "_BATCH_BYTES", 2 * len(found[0].data) + more)

    result = await versions.records(kind, found)

    assert (len(result), converter.sizes) == (3, sizes)


@pytest.mark.parametrize(("version", "sizes"), [("v1", [1, 1]), ("v2", [])])
async def test_only_other_versions_are_converted_for_writes(version: str, sizes: list[int]) -> None:
    kind = resource("v2", storage="v2")
    store: Any = OneRecord(record("a", version))

    async def plan(current: Record | None) -> Outcome:
        obj = objects.decode(record("a", version, "y").data)
        return Put(objects.encode_for_store(obj))

    result = await versions.write(store, kind, "a", plan)

    assert (kind.converter.sizes, spec(store.record), spec(result)) == (sizes, {"v2": "y"}, {"v2": "y"})  # type: ignore[union-attr]


@pytest.mark.parametrize("converts", [True, False])
async def test_new_object_is_stored_in_the_storage_version(converts: bool) -> None:
    kind = resource() if converts else replace(resource(), converter=None)
    store: Any = Memory()
    obj = objects.decode(record("a", "v2").data)

    result = await versions.create(store, kind, "n/a", lambda current: Put(objects.encode_for_store(obj)))

    assert (store.read(kind.storage, "n/a")["spec"], spec(result)) == ({"v1" if converts else "v2": "x"}, {"v2": "x"})

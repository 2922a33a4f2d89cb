"""Tests for range allocations in upstream's stored form."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from apiserver_stub.apimachinery import objects
from apiserver_stub.kinds.range_allocation import (
    COLLECTION,
    AllocationConflict,
    AllocationError,
    RangeAllocation,
    Snapshot,
    numbers_of,
)
from apiserver_stub.storage.sqlite import SqliteStore
from nodeagent.base import apiproto

TAKEN = "provided port is already allocated"


def ports(first: int = 30000, size: int = 20, kept: int = 0) -> RangeAllocation:
    return RangeAllocation("servicenodeports", f"{first}-{first + size - 1}", first, size, kept, TAKEN)


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[SqliteStore]:
    found = SqliteStore(tmp_path / "store.db")
    await found.open()
    yield found
    await found.close()


def stored(store: SqliteStore) -> Any:
    record = store.collection(COLLECTION).get("servicenodeports")
    return None if record is None else objects.decode(record.data)


async def test_bitmap_is_big_endian_with_the_first_number_in_bit_zero(store: SqliteStore) -> None:
    found = ports()
    await found.replace(store, Snapshot(), [30000, 30009])

    record = stored(store)
    assert (record["kind"], record["apiVersion"], record["range"]) == ("RangeAllocation", "v1", "30000-30019")
    assert record["data"] == "AgE="  # 0x02, 0x01
    assert numbers_of(30000, (await found.snapshot(store)).bits) == [30000, 30009]
    await found.release(store, [30000, 30009])
    assert stored(store)["data"] == ""


def test_allocation_is_encoded_as_protobuf() -> None:
    obj = {"kind": "RangeAllocation", "apiVersion": "v1", "metadata": {}, "range": "10.96.0.0/28", "data": "AQA="}
    encoded = apiproto.encode(obj)

    assert b"\x12\x0c10.96.0.0/28\x1a\x02\x01\x00" in encoded
    assert apiproto.decode(encoded) == obj


async def test_number_is_allocated_once(store: SqliteStore) -> None:
    found = ports()
    await found.replace(store, Snapshot(), ())
    results = await asyncio.gather(*(found.allocate(store) for _ in range(21)), return_exceptions=True)

    assert {number for number in results if isinstance(number, int)} == set(range(30000, 30020))
    assert [str(error) for error in results if isinstance(error, AllocationError)] == ["range is full"]
    with pytest.raises(AllocationError, match=TAKEN):
        await found.allocate(store, 30003)
    await found.release(store, [30003, 40000])
    assert await found.allocate(store) == 30003


async def test_static_range_is_allocated_last(store: SqliteStore) -> None:
    found = ports(kept=16)
    await found.replace(store, Snapshot(), ())
    numbers = [await found.allocate(store) for _ in range(20)]

    assert set(numbers[:4]) == set(range(30016, 30020))
    assert set(numbers[4:]) == set(range(30000, 30016))


async def test_other_or_uninitialized_range_allocates_nothing(store: SqliteStore) -> None:
    with pytest.raises(AllocationError, match="at this time"):
        await ports().allocate(store)
    assert stored(store) is None
    await ports().replace(store, Snapshot(), ())
    for number in (None, 31001):
        with pytest.raises(AllocationError, match="does not match the current range"):
            await ports(31000).allocate(store, number)


async def test_replacement_fails_after_a_concurrent_change(store: SqliteStore) -> None:
    found = ports()
    await found.replace(store, Snapshot(), ())
    before = await found.snapshot(store)
    await found.allocate(store, 30005)

    with pytest.raises(AllocationConflict):
        await found.replace(store, before, ())
    assert found.is_allocated(store, 30005)

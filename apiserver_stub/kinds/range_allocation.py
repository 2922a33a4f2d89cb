"""Allocation of unique numbers from a range that all servers of a store share.

Allocated numbers are a bitmap in a ``RangeAllocation``: the lowest bit is the first number of the range, and the bytes
are those of one big-endian number. Every change is a compare-and-swap operation, so each number is allocated once.
"""

from __future__ import annotations

import asyncio
import base64
import random
from collections.abc import Iterable

from msgspec import field

from apiserver_stub.apimachinery import objects
from apiserver_stub.apimachinery.objects import Object
from apiserver_stub.storage import Keep, Outcome, Put, Record, Store
from nodeagent.base.structs import Struct

COLLECTION = "core/ranges"
_KIND = "RangeAllocation"
_random = random.Random()  # noqa: S311 - spread, not secrecy


class AllocationError(ValueError):
    """A number is not available; the text is the reason."""


class AllocationConflict(Exception):
    """The allocation bitmap changed concurrently; retry."""


class Snapshot(Struct, frozen=True):
    """Allocated numbers at a revision; the revision is 0 if there is no record, so that nothing was ever allocated."""

    revision: int = 0
    range: str = ""
    bits: int = 0


class RangeAllocation(Struct, frozen=True, eq=False):
    """A range of numbers and its record.

    :param key: name of the record.
    :param range: text of the range in the record; a record with another text is not changed.
    :param first: the number of the lowest bit.
    :param size: count of numbers.
    :param reserved: count of numbers at the start that are kept for static allocation while others are free.
    :param in_use_error: error message for a number that is already allocated.
    """

    key: str
    range: str
    first: int
    size: int
    reserved: int
    in_use_error: str
    _lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    """Serializes the changes by this server, which would conflict otherwise."""

    def __contains__(self, number: int) -> bool:
        return 0 <= number - self.first < self.size

    async def allocate(self, store: Store, requested: int | None = None) -> int:
        """Allocate a free number, or *requested*, which must be in the range.

        :raises AllocationError: the number, or every number, is allocated, or the range is not initialized yet.
        :raises StoreUnavailable: the number may be allocated anyway; the repair loop detects the leak.
        """
        offset = -1

        def decide(current: Record | None) -> Outcome:
            nonlocal offset
            bits = self._bits(current)
            offset = self._choose(bits) if requested is None else requested - self.first
            if bits >> offset & 1:
                raise AllocationError(self.in_use_error)
            return self._put(bits | 1 << offset)

        async with self._lock:
            await store.update(COLLECTION, self.key, decide)
        return self.first + offset

    async def release(self, store: Store, numbers: Iterable[int]) -> None:
        """Release *numbers*; those that are outside of the range or already free are ignored.

        :raises AllocationError: the record is that of another range.
        :raises StoreUnavailable: the numbers may still be allocated; the repair loop detects the leak.
        """
        mask = sum(1 << number - self.first for number in {*numbers} if number in self)

        def decide(current: Record | None) -> Outcome:
            bits = self._bits(current)
            return self._put(bits & ~mask) if bits & mask else Keep()

        if mask:
            async with self._lock:
                await store.update(COLLECTION, self.key, decide)

    def is_allocated(self, store: Store, number: int) -> bool:
        """Return whether *number* is allocated in this server's copy of the record."""
        record = store.collection(COLLECTION).get(self.key)
        return record is not None and bool(_read(record).bits >> number - self.first & 1)

    async def snapshot(self, store: Store) -> Snapshot:
        """Return the currently allocated numbers."""
        await store.catch_up(COLLECTION)
        record = store.collection(COLLECTION).get(self.key)
        return _read(record) if record is not None else Snapshot()

    async def replace(self, store: Store, before: Snapshot, numbers: Iterable[int]) -> None:
        """Replace the allocated numbers by *numbers*.

        :raises AllocationConflict: the record has changed since *before*; nothing was changed.
        :raises StoreUnavailable: the change could not be made durable.
        """
        octets = bytearray(-(-self.size // 8))
        for number in numbers:
            octets[(number - self.first) // 8] |= 1 << (number - self.first) % 8
        bits = int.from_bytes(octets, "little")

        def decide(current: Record | None) -> Outcome:
            if (current.revision if current is not None else 0) != before.revision:
                raise AllocationConflict
            return Keep() if (before.range, before.bits) == (self.range, bits) else self._put(bits)

        async with self._lock:
            await store.update(COLLECTION, self.key, decide)

    def _bits(self, record: Record | None) -> int:
        if record is None:
            raise AllocationError(f"cannot allocate from the range {self.range} at this time")
        snapshot = _read(record)
        if snapshot.range != self.range:
            raise AllocationError("the provided range does not match the current range")
        return snapshot.bits

    def _put(self, bits: int) -> Outcome:
        data = base64.b64encode(bits.to_bytes(-(-bits.bit_length() // 8), "big")).decode()
        obj: Object = {"kind": _KIND, "apiVersion": "v1", "metadata": {}, "range": self.range, "data": data}
        return Put(objects.encode_for_store(obj))

    def _choose(self, bits: int) -> int:
        """Return the position of a free bit: the next one from a random position on."""
        for start, end in ((self.reserved, self.size), (0, self.reserved)):
            free = (1 << end) - (1 << start) & ~bits
            if free:
                position = _random.randrange(start, end)
                after = free >> position << position or free
                return (after & -after).bit_length() - 1
        raise AllocationError("range is full")


def numbers_of(first: int, bits: int) -> list[int]:
    """Return the numbers of the bits that are set; the lowest bit is that of *first*."""
    octets = bits.to_bytes(-(-bits.bit_length() // 8), "little")
    return [
        first + 8 * index + bit for index, octet in enumerate(octets) if octet for bit in range(8) if octet >> bit & 1
    ]


def _read(record: Record) -> Snapshot:
    obj: Object = objects.decode(record.data)
    data = base64.b64decode(obj.get("data") or "")
    return Snapshot(record.revision, obj.get("range") or "", int.from_bytes(data, "big"))

"""Numbers that only one object may have, out of a range that all servers of a store share.

What is taken is a bitmap in a ``RangeAllocation``: the lowest bit is the first number of the range, and the bytes are
those of one large number, the highest first. Every change is a compare and swap, so no two servers take the same.
"""

from __future__ import annotations

import asyncio
import base64
import random
from collections.abc import Iterable
from dataclasses import dataclass, field

from apiserver_stub.apimachinery import objects
from apiserver_stub.apimachinery.objects import Object
from apiserver_stub.storage import Keep, Outcome, Put, Record, Store

COLLECTION = "core/ranges"
_KIND = "RangeAllocation"
_random = random.Random()  # noqa: S311 - spread, not secrecy


class Refused(ValueError):
    """A number cannot be had; the text says why."""


class Moved(Exception):
    """Somebody took or gave back a number meanwhile."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """What was taken at a revision; without a record the revision is 0 and nothing was ever given out."""

    revision: int = 0
    range: str = ""
    bits: int = 0


@dataclass(frozen=True, eq=False)
class RangeAllocation:
    """One range and its record.

    :param key: name of the record.
    :param range: the range as the record says it; one that says another is not touched.
    :param first: the number of the lowest bit.
    :param size: how many numbers there are.
    :param kept: so many of the first are left to those who choose, as long as there are others.
    :param taken: what is said of a number that is taken.
    """

    key: str
    range: str
    first: int
    size: int
    kept: int
    taken: str
    _lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    """This server's own changes wait for each other instead of racing."""

    def __contains__(self, number: int) -> bool:
        return 0 <= number - self.first < self.size

    async def take(self, store: Store, wanted: int | None = None) -> int:
        """Take a free number, or *wanted*, which must be in the range.

        :raises Refused: it is taken, or all are, or nobody has looked yet which are.
        :raises StoreUnavailable: the number may be taken then, and is found by the next repair.
        """
        offset = -1

        def decide(current: Record | None) -> Outcome:
            nonlocal offset
            bits = self._bits(current)
            offset = self._choose(bits) if wanted is None else wanted - self.first
            if bits >> offset & 1:
                raise Refused(self.taken)
            return self._put(bits | 1 << offset)

        async with self._lock:
            await store.update(COLLECTION, self.key, decide)
        return self.first + offset

    async def give_back(self, store: Store, numbers: Iterable[int]) -> None:
        """Make *numbers* free; those that are not of the range, or free already, do not matter.

        :raises Refused: the record is of another range.
        :raises StoreUnavailable: they may not be free then, which the next repair finds.
        """
        mask = sum(1 << number - self.first for number in {*numbers} if number in self)

        def decide(current: Record | None) -> Outcome:
            bits = self._bits(current)
            return self._put(bits & ~mask) if bits & mask else Keep()

        if mask:
            async with self._lock:
                await store.update(COLLECTION, self.key, decide)

    def is_taken(self, store: Store, number: int) -> bool:
        """Return whether *number* was taken when this server last looked."""
        record = store.collection(COLLECTION).get(self.key)
        return record is not None and bool(_read(record).bits >> number - self.first & 1)

    async def snapshot(self, store: Store) -> Snapshot:
        """Return what is taken now."""
        await store.catch_up(COLLECTION)
        record = store.collection(COLLECTION).get(self.key)
        return _read(record) if record is not None else Snapshot()

    async def replace(self, store: Store, before: Snapshot, numbers: Iterable[int]) -> None:
        """Let *numbers* be those that are taken.

        :raises Moved: it is no longer as in *before*, and nothing was changed.
        :raises StoreUnavailable: the change could not be made durable.
        """
        octets = bytearray(-(-self.size // 8))
        for number in numbers:
            octets[(number - self.first) // 8] |= 1 << (number - self.first) % 8
        bits = int.from_bytes(octets, "little")

        def decide(current: Record | None) -> Outcome:
            if (current.revision if current is not None else 0) != before.revision:
                raise Moved
            return Keep() if (before.range, before.bits) == (self.range, bits) else self._put(bits)

        async with self._lock:
            await store.update(COLLECTION, self.key, decide)

    def _bits(self, record: Record | None) -> int:
        if record is None:
            raise Refused(f"cannot allocate from the range {self.range} at this time")
        found = _read(record)
        if found.range != self.range:
            raise Refused("the provided range does not match the current range")
        return found.bits

    def _put(self, bits: int) -> Outcome:
        data = base64.b64encode(bits.to_bytes(-(-bits.bit_length() // 8), "big")).decode()
        obj: Object = {"kind": _KIND, "apiVersion": "v1", "metadata": {}, "range": self.range, "data": data}
        return Put(objects.encode_for_store(obj))

    def _choose(self, bits: int) -> int:
        """Return the bit of a free number: the next one after a random place."""
        for start, end in ((self.kept, self.size), (0, self.kept)):
            free = (1 << end) - (1 << start) & ~bits
            if free:
                place = _random.randrange(start, end)
                after = free >> place << place or free
                return (after & -after).bit_length() - 1
        raise Refused("range is full")


def numbers_of(first: int, bits: int) -> list[int]:
    """Return the numbers that *bits* stand for, the lowest bit for *first*."""
    octets = bits.to_bytes(-(-bits.bit_length() // 8), "little")
    return [
        first + 8 * index + bit for index, octet in enumerate(octets) if octet for bit in range(8) if octet >> bit & 1
    ]


def _read(record: Record) -> Snapshot:
    obj: Object = objects.decode(record.data)
    data = base64.b64decode(obj.get("data") or "")
    return Snapshot(record.revision, obj.get("range") or "", int.from_bytes(data, "big"))

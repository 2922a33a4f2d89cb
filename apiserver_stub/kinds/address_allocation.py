"""Allocation of cluster IPs from ServiceCIDRs: each allocated address is an IPAddress object.

Addresses are unique since they are the names of the objects, so servers that share a store need no common bitmap.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import Iterable, Iterator
from ipaddress import IPv4Address, IPv6Address
from typing import NamedTuple

from apiserver_stub.apimachinery import objects
from apiserver_stub.kinds.address_objects import AddressObjects, Network, is_ready, networks_of, read_all, usable
from apiserver_stub.kinds.range_allocation import AllocationError
from apiserver_stub.storage import Keep, Outcome, Put, Record, Remove, Store
from apiserver_stub.storage.record import without_revision
from nodeagent.base.structs import Struct

_MISMATCH = "the provided network does not match the current range"
_IN_USE = "provided IP is already allocated"
_FULL = "range is full"
_STEP = 4096
_random = random.Random()  # noqa: S311 - spread, not secrecy


class ServiceName(NamedTuple):
    """Namespace and name of the service that an address is allocated for."""

    namespace: str
    name: str


class AddressAllocation(Struct, frozen=True, eq=False):
    """Addresses of one IP family, as numbers."""

    kinds: AddressObjects
    version: int
    in_use_error: str = _IN_USE

    @property
    def key(self) -> str:
        return f"{self.kinds.ranges} IPv{self.version}"

    def __contains__(self, number: int) -> bool:
        """Return whether *number* is an address of the family; the ranges are in the store."""
        return 0 <= number < 1 << (32 if self.version == 4 else 128)

    def check(self, store: Store, number: int) -> None:
        """Check that *number* is in a range that is ready.

        :raises AllocationError: it is not.
        """
        if not any(number in usable(network) for network in self._networks(store)):
            raise AllocationError(_MISMATCH)

    async def allocate(self, store: Store, service: ServiceName, requested: int | None = None) -> int:
        """Allocate a free address, or *requested*, for *service*.

        :raises AllocationError: the address, or every address, is allocated, or it is outside of all ranges.
        :raises StoreUnavailable: the address may be allocated anyway; the repair loop detects the leak.
        """
        if requested is not None:
            self.check(store, requested)
            if not await self._create(store, requested, service):
                raise AllocationError(_IN_USE)
            return requested
        addresses = store.collection(self.kinds.addresses)
        for network in self._networks(store):
            for count, number in enumerate(_candidates(network), 1):
                if count % _STEP == 0:
                    await asyncio.sleep(0)
                if not addresses.exists(self._name(number)) and await self._create(store, number, service):
                    return number
        raise AllocationError(_FULL)

    async def release(self, store: Store, numbers: Iterable[int]) -> None:
        """Delete the objects of *numbers*; those that do not exist are ignored.

        :raises StoreUnavailable: the addresses may still be allocated; the repair loop detects the leak.
        """
        for number in {*numbers}:
            await delete(store, self.kinds, self._name(number))

    async def _create(self, store: Store, number: int, service: ServiceName) -> bool:
        """Create the object of an address; return whether no object existed."""
        return await create(store, self.kinds, self._name(number), service)

    def _networks(self, store: Store) -> Iterator[Network]:
        for service_cidr in read_all(store.collection(self.kinds.ranges).select()):
            if is_ready(service_cidr):
                yield from (network for network in networks_of(service_cidr) if network.version == self.version)

    def _name(self, number: int) -> str:
        return str(IPv4Address(number) if self.version == 4 else IPv6Address(number))


async def create(store: Store, kinds: AddressObjects, name: str, service: ServiceName) -> bool:
    """Create the IPAddress *name* of *service*; return whether it did not exist.

    :raises StoreUnavailable: the write could not be made durable.
    """
    if store.collection(kinds.addresses).exists(name):
        return False
    created = False

    def decide(current: Record | None) -> Outcome:
        nonlocal created
        created = current is None
        return Put(objects.encode_for_store(kinds.address(name, *service))) if created else Keep()

    await store.update(kinds.addresses, name, decide)
    return created


async def delete(store: Store, kinds: AddressObjects, name: str) -> None:
    """Delete the IPAddress *name* if it exists.

    :raises StoreUnavailable: the write could not be made durable.
    """

    def decide(current: Record | None) -> Outcome:
        return Keep() if current is None else Remove(without_revision(current.data))

    if store.collection(kinds.addresses).get(name) is not None:
        with contextlib.suppress(LookupError):  # Another client deletes it.
            await store.update(kinds.addresses, name, decide)


def _candidates(network: Network) -> Iterator[int]:
    """Yield each address once: first those above the part for static allocation, from a random one on."""
    numbers, total = usable(network), network.num_addresses
    kept = min(max(16, total // 16), 256) if total > 16 else 0
    for start, end in ((numbers.start + kept, numbers.stop), (numbers.start, min(numbers.start + kept, numbers.stop))):
        if (size := end - start) > 0:
            first = _random.randrange(size)
            for number in range(size):
                yield start + (first + number) % size

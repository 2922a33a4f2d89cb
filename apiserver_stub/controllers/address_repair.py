"""Repair loop for cluster IPs that objects record: each cluster IP of a Service has one IPAddress that refers to it.

A crash between two writes leaves an IPAddress without a Service. It is deleted a minute later, since a server may be
about to write the Service. Services that share an address or have one outside of all ranges are reported as events.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Literal, NamedTuple

from apiserver_stub.apimachinery import objects
from apiserver_stub.apimachinery.objects import Object, dig, key_of, parse_time
from apiserver_stub.controllers.change_feed import ChangeFeed
from apiserver_stub.controllers.event_recorder import EventRecorder
from apiserver_stub.controllers.work_queue import WorkQueue
from apiserver_stub.kinds.address_allocation import ServiceName, create, delete
from apiserver_stub.kinds.address_objects import AddressObjects, networks_of, read_all, usable
from apiserver_stub.kinds.service_allocators import used_by
from apiserver_stub.storage import Record
from apiserver_stub.validation.addresses import Address, parse_address

if TYPE_CHECKING:
    from apiserver_stub.storage import Store
    from nodeagent.base.aio import Clock

CONTROLLER = "ipallocator-repair-controller"
RESYNC_SECONDS = 180.0
WRITE_SECONDS = 60.0
"""Maximum time between the creations of an IPAddress and its Service: the default timeout of a request."""
ROLLBACK_SECONDS = 5.0
"""Time in which a write that failed releases its addresses."""
_SERVICES = "core/services"
_ALLOCATION, _REPAIRED = "ClusterIPAllocation", "ClusterIPNotAllocated"


class Item(NamedTuple):
    """An object to check."""

    kind: Literal["service", "address"]
    key: str


class AddressRepair:
    """Controller that keeps the IPAddresses and the cluster IPs of Services consistent."""

    def __init__(self, store: Store, kinds: AddressObjects, events: EventRecorder, clock: Clock) -> None:
        self._store, self._kinds, self._events, self._clock = store, kinds, events, clock
        self.queue: WorkQueue[Item] = WorkQueue(CONTROLLER, clock)
        self._feed = ChangeFeed(store, [_SERVICES, kinds.addresses], self)

    async def once(self) -> None:
        """Check all Services and IPAddresses.

        :raises StoreUnavailable: the store is unavailable.
        """
        for item in self._all():
            await self._check(item)

    async def run(self) -> None:
        """Check objects that have changed, and all objects periodically, until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._events.run())
            group.create_task(self._feed.run())
            group.create_task(self.queue.run(self._check, at_once=1))
            while True:
                await self._clock.sleep(RESYNC_SECONDS)
                for item in self._all():
                    self.queue.add(item)

    def reset(self) -> None:
        """Keep the queue: the feed delivers all objects again."""

    def see(self, collection: str, record: Record, previous: Record | None) -> None:
        self.queue.add(Item("service" if collection == _SERVICES else "address", record.key))

    def remove(self, collection: str, record: Record) -> None:
        if collection == self._kinds.addresses:
            reference = _reference(objects.decode(record.data))
            self.queue.add(Item("service", key_of(reference.get("namespace", ""), reference.get("name", ""))))

    def _all(self) -> list[Item]:
        services = [Item("service", record.key) for record in self._store.collection(_SERVICES).select()]
        addresses = self._store.collection(self._kinds.addresses).select()
        return services + [Item("address", record.key) for record in addresses]

    async def _check(self, item: Item) -> None:
        obj = self._read(_SERVICES if item.kind == "service" else self._kinds.addresses, item.key)
        if obj is None:
            return
        if item.kind == "address":
            await self._check_address(obj)
            return
        for text in used_by(obj).addresses:
            await self._check_service(obj, text)

    async def _check_service(self, service: Object, text: str) -> None:
        """Check one cluster IP of *service*."""
        address = parse_address(text)
        if address is None:
            note = f"Cluster IP {text} is not a valid IP; please recreate Service"
            self._warn(service, "ClusterIPNotValid", "ClusterIPValidation", note)
            return
        metadata, shown = service["metadata"], f"[IPv{address.version}]: {address}"
        if not self._is_in_range(address):
            note = f"Cluster IP {shown} is not within any configured Service CIDR; please recreate service"
            self._warn(service, "ClusterIPOutOfRange", _ALLOCATION, note)
            return
        owner, name = ServiceName(metadata["namespace"], metadata["name"]), str(address)
        found = self._read(self._kinds.addresses, name)
        if found is None:
            self._warn(service, _REPAIRED, _ALLOCATION, f"Cluster IP {shown} is not allocated; repairing")
            await create(self._store, self._kinds, name, owner)
            return
        other = _service_of(found)
        wrong = f"the ClusterIP {shown} for Service {owner.namespace}/{owner.name} has a wrong reference; repairing"
        if other is None:
            await self._recreate(service, name, wrong)
        elif other != owner:
            holder = self._read(_SERVICES, key_of(*other))
            if holder is None:
                await self._recreate(service, name, wrong)
            elif name in (dig(holder, ("spec", "clusterIPs")) or ()):
                note = f"Cluster IP [IPv{address.version}]:{address} was assigned to multiple services; "
                self._warn(service, "ClusterIPAlreadyAllocated", _ALLOCATION, f"{note}please recreate service")
        elif not self._kinds.is_labeled(found):
            await self._recreate(service, name)

    async def _check_address(self, address: Object) -> None:
        if not self._kinds.is_managed(address):
            return
        name, owner = address["metadata"]["name"], _service_of(address)
        if owner is None:
            note = f"IPAddress {name} appears to have been modified, not referencing a Service: cleaning up"
            await self._delete(address, "IPAddressNotAllocated", note)
            return
        service, age = self._read(_SERVICES, key_of(*owner)), self._age(address)
        if service is None:
            if age < WRITE_SECONDS:
                self.queue.add_after(Item("address", name), WRITE_SECONDS - age)
                return
            note = f"IPAddress: {name} for Service {owner.namespace}/{owner.name} appears to have leaked: cleaning up"
            await self._delete(address, "IPAddressNotAllocated", note)
            return
        if name in (dig(service, ("spec", "clusterIPs")) or ()):
            return
        is_external = dig(service, ("spec", "type")) == "ExternalName"
        patience = WRITE_SECONDS if is_external else ROLLBACK_SECONDS
        if age < patience:
            self.queue.add_after(Item("address", name), patience - age)
            return
        note = f"IPAddress: {name} for Service {owner.namespace}/{owner.name} has a wrong reference; cleaning up"
        await self._delete(address, "IPAddressWrongReference", note)

    async def _recreate(self, service: Object, name: str, note: str = "") -> None:
        metadata = service["metadata"]
        if note:
            self._warn(service, _REPAIRED, _ALLOCATION, note)
        await delete(self._store, self._kinds, name)
        await create(self._store, self._kinds, name, ServiceName(metadata["namespace"], metadata["name"]))

    async def _delete(self, address: Object, reason: str, note: str) -> None:
        self._warn(address, reason, "IPAddressAllocation", note)
        await delete(self._store, self._kinds, address["metadata"]["name"])

    def _warn(self, regarding: Object, reason: str, action: str, note: str) -> None:
        self._events.record(regarding, "Warning", reason, action, note)

    def _is_in_range(self, address: Address) -> bool:
        return any(
            network.version == address.version and int(address) in usable(network)
            for item in read_all(self._store.collection(self._kinds.ranges).select())
            for network in networks_of(item)
        )

    def _age(self, obj: Object) -> float:
        created = parse_time(obj["metadata"].get("creationTimestamp"))
        return WRITE_SECONDS if created is None else (self._clock.wall() - created).total_seconds()

    def _read(self, collection: str, key: str) -> Object | None:
        record = self._store.collection(collection).get(key)
        return None if record is None else objects.decode(record.data)


def _reference(address: Object) -> Object:
    return dig(address, ("spec", "parentRef")) or {}


def _service_of(address: Object) -> ServiceName | None:
    """Return the service that *address* refers to, ``None`` if it refers to another object."""
    reference = _reference(address)
    if reference.get("group") or reference.get("resource") != "services":
        return None
    return ServiceName(reference.get("namespace") or "", reference.get("name") or "")

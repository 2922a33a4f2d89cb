"""ServiceCIDR controller: protect ranges with allocated addresses from deletion, and report whether they are ready."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import ClassVar

from apiserver_stub.apimachinery import objects
from apiserver_stub.apimachinery.objects import Object, parse_time
from apiserver_stub.controllers.plugin import Controller, ControllerContext
from apiserver_stub.controllers.views import OwnerView, View
from apiserver_stub.controllers.work_queue import WorkQueue
from apiserver_stub.kinds.address_objects import READY, AddressObjects, networks_of, read_all, usable
from apiserver_stub.validation.addresses import parse_address
from nodeagent.base.identity import Identity

GRACE_SECONDS = 10.0
"""Time for which a deleted range is kept, until all servers have stopped allocating from it."""
_READY_MESSAGE = "Kubernetes Service CIDR is ready"
_BLOCKED_MESSAGE = (
    "There are still IPAddresses referencing the ServiceCIDR, please remove them or create a new ServiceCIDR"
)


class ServiceCidrs(Controller):
    """Finalizers and conditions of ServiceCIDRs."""

    name = "service-cidr-controller"
    feature_gate: ClassVar[str] = "MultiCIDRServiceAllocator"

    @classmethod
    def resources_of(cls, identity: Identity) -> Sequence[str]:
        group = identity.group("networking")
        return (f"servicecidrs.{group}", f"ipaddresses.{group}")

    @classmethod
    def views_of(cls, identity: Identity) -> Mapping[str, type[View]]:
        group = identity.group("networking")
        return {f"{group}/servicecidrs": OwnerView, f"{group}/ipaddresses": View}

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self.writer, self.queue = context.writer(self.name), WorkQueue[str](self.name, context.clock)
        self._kinds = AddressObjects.of(context.identity, context.release)
        self._ranges = self.writer.resource(self._kinds.group, self._kinds.version, "servicecidrs")
        self._finalizer = f"{self._kinds.group}/service-cidr-finalizer"
        context.index.listen(self._kinds.ranges, self._range_changed)
        context.index.listen(self._kinds.addresses, self._address_changed)

    async def run(self) -> None:
        if self.context.gates.enabled(self.feature_gate):
            await self.queue.run(self._process, at_once=1)

    async def _process(self, name: str) -> None:
        await self.context.leadership.acquired()
        await self.writer.settled()
        await self.context.index.catch_up()
        record = self.context.verbs.store.collection(self._kinds.ranges).get(name)
        if record is not None:
            await self._sync(self._ranges.read(record))

    async def _sync(self, found: Object) -> None:
        metadata = found["metadata"]
        deleted = parse_time(metadata.get("deletionTimestamp"))
        if deleted is None:
            await self.writer.change(self._ranges, found, self._protect)
            return
        if self._is_used(found):
            await self._set_condition(found, "False", "Terminating", _BLOCKED_MESSAGE)
            return
        left = GRACE_SECONDS - (self.context.clock.wall() - deleted).total_seconds()
        if left > 0:
            self.queue.add_after(metadata["name"], left)
        elif self._finalizer in (metadata.get("finalizers") or ()):
            await self.writer.change(self._ranges, found, self._release)

    def _protect(self, obj: Object) -> None:
        finalizers = obj["metadata"].setdefault("finalizers", [])
        if self._finalizer not in finalizers:
            finalizers.append(self._finalizer)
        self._condition("True", "", _READY_MESSAGE)(obj)

    def _release(self, obj: Object) -> None:
        left = [item for item in obj["metadata"].get("finalizers") or () if item != self._finalizer]
        obj["metadata"]["finalizers"] = left
        if not left:
            del obj["metadata"]["finalizers"]

    async def _set_condition(self, found: Object, status: str, reason: str, message: str) -> None:
        await self.writer.change(self._ranges, found, self._condition(status, reason, message))

    def _condition(self, status: str, reason: str, message: str) -> Callable[[Object], None]:
        """Return a function that sets the condition Ready."""
        now = objects.format_time(self.context.clock.wall())

        def edit(obj: Object) -> None:
            conditions = obj.setdefault("status", {}).setdefault("conditions", [])
            fields = {"type": READY, "status": status, "reason": reason, "message": message}
            current = next((item for item in conditions if item.get("type") == READY), None)
            if current is None:
                conditions.append({**fields, "lastTransitionTime": now})
            elif {key: current.get(key) or "" for key in fields} != fields:
                current |= {**fields, "lastTransitionTime": now}

        return edit

    def _is_used(self, found: Object) -> bool:
        """Return whether an address was allocated from *found* and is in no other range."""
        name, store = found["metadata"]["name"], self.context.verbs.store
        others = [
            network
            for item in read_all(store.collection(self._kinds.ranges).select())
            if item["metadata"]["name"] != name
            for network in networks_of(item)
        ]
        own = [
            network
            for network in networks_of(found)
            if not any(other.version == network.version and network.subnet_of(other) for other in others)  # type: ignore[arg-type]
        ]
        for item in read_all(store.collection(self._kinds.addresses).select()):
            address = parse_address(item["metadata"]["name"])
            if address is None or not self._kinds.is_managed(item):
                continue
            inside, elsewhere = (
                any(network.version == address.version and int(address) in usable(network) for network in networks)
                for networks in (own, others)
            )
            if inside and not elsewhere:
                return True
        return False

    def _range_changed(self, before: View | None, after: View | None) -> None:
        if after is not None:
            self.queue.add(after.key)
        self._add_deleted()

    def _address_changed(self, before: View | None, after: View | None) -> None:
        if after is None:
            self._add_deleted()

    def _add_deleted(self) -> None:
        """Process the ranges whose deletion waits, since a range changed or an address was removed."""
        for view in self.context.index.all(self._kinds.ranges):
            if view.deleting:
                self.queue.add(view.key)

"""Reconcile the ServiceCIDR ``kubernetes``, which has the ranges of the command line."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING

from apiserver_stub.apimachinery import objects
from apiserver_stub.apimachinery.objects import Object, dig
from apiserver_stub.controllers.ensure import ensure
from apiserver_stub.controllers.event_recorder import EventRecorder
from apiserver_stub.kinds.address_objects import DEFAULT, READY
from apiserver_stub.storage import Keep, Outcome, Put, Record, StoreRejected, StoreUnavailable

if TYPE_CHECKING:
    from apiserver_stub.kinds.service_allocators import ServiceAllocators
    from apiserver_stub.storage import Store

_log = logging.getLogger(__name__)

CONTROLLER = "kubernetes-service-cidr-controller"
_PERIOD_SECONDS = 10.0
_MESSAGE = "Kubernetes default Service CIDR is ready"


class DefaultServiceCidr:
    """Controller of the default ServiceCIDR: it is created, extended to dual-stack and reported as ready.

    An existing one with other ranges, or that another component reports as not ready, is only reported.
    """

    def __init__(self, store: Store, addresses: ServiceAllocators, events: EventRecorder) -> None:
        if addresses.address_objects is None:
            raise ValueError("no objects record the addresses")
        self._store, self._kinds, self._events = store, addresses.address_objects, events
        self._networks = list(addresses.networks.values())
        self._reported: set[str] = set()

    async def reconcile(self) -> None:
        """Create or complete the object.

        :raises StoreUnavailable: the write could not be made durable.
        """
        kinds, store, blocks = self._kinds, self._store, [str(network) for network in self._networks]
        await ensure(store, kinds.ranges, kinds.default_range(self._networks))
        record = store.collection(kinds.ranges).get(DEFAULT)
        if record is None:
            return
        found: Object = objects.decode(record.data)
        current = dig(found, ("spec", "cidrs")) or []
        if len(blocks) == 2 and current == blocks[:1]:
            await self._change(lambda obj: obj["spec"].update(cidrs=blocks))
        elif "deletionTimestamp" in found["metadata"]:
            return
        elif current != blocks:
            note = f"The default ServiceCIDR [{' '.join(current)}] does not match the controller flag configurations "
            self._report(found, "KubernetesDefaultServiceCIDRInconsistent", f"{note}[{' '.join(blocks)}]")
        else:
            await self._sync_status(found)

    async def run(self) -> None:
        """Reconcile periodically until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._events.run())
            while True:
                await asyncio.sleep(_PERIOD_SECONDS)
                try:
                    await self.reconcile()
                except (StoreUnavailable, StoreRejected) as error:
                    _log.error("Failed to sync default ServiceCIDR", extra={"err": error})

    async def _sync_status(self, found: Object) -> None:
        conditions = dig(found, ("status", "conditions")) or ()
        current = next((item for item in conditions if item.get("type") == READY), None)
        if current is not None and current.get("status") == "False":
            self._report(found, current.get("reason") or "", f"Configuration matches, but {current.get('message')}")
            return
        if current is not None and current.get("status") == "True":
            return
        ready = {
            "type": READY,
            "status": "True",
            "lastTransitionTime": objects.now(),
            "reason": "",
            "message": _MESSAGE,
        }

        def edit(obj: Object) -> None:
            status = obj.setdefault("status", {})
            others = [item for item in status.get("conditions") or () if item.get("type") != READY]
            status["conditions"] = [*others, ready]

        await self._change(edit)

    async def _change(self, edit: Callable[[Object], object]) -> None:
        def decide(current: Record | None) -> Outcome:
            if current is None:
                return Keep()
            obj: Object = objects.decode(current.data)
            edit(obj)
            return Put(objects.encode_for_store(obj))

        await self._store.update(self._kinds.ranges, DEFAULT, decide)

    def _report(self, found: Object, reason: str, note: str) -> None:
        if reason not in self._reported:
            self._reported.add(reason)
            _log.warning("Invalid default ServiceCIDR: %s", note)
            self._events.record(found, "Warning", reason, "", note)

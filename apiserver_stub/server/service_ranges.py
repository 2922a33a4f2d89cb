"""Controllers of the ranges of cluster IPs and node ports; they run on each server."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from apiserver_stub.controllers.address_repair import CONTROLLER as REPAIR
from apiserver_stub.controllers.address_repair import AddressRepair
from apiserver_stub.controllers.allocator_repair import repair_service_ranges
from apiserver_stub.controllers.default_service_cidr import CONTROLLER, DefaultServiceCidr
from apiserver_stub.controllers.event_recorder import EventRecorder
from apiserver_stub.kinds.services import ServiceStrategy

if TYPE_CHECKING:
    from apiserver_stub.kinds.registry import Registry
    from apiserver_stub.storage import Store
    from nodeagent.base.aio import Clock
    from nodeagent.base.identity import Identity


class Runnable(Protocol):
    """A controller."""

    async def run(self) -> None:
        """Run until cancelled."""
        ...


async def prepare_service_ranges(
    store: Store, registry: Registry, identity: Identity, event_ttl_seconds: int | None, clock: Clock
) -> dict[str, Runnable]:
    """Create and repair the ranges before the first Service is written, and return the controllers that repeat this.

    :raises StoreUnavailable: the store is unavailable.
    """
    found: dict[str, Runnable] = {}
    if (repair := await repair_service_ranges(store, registry, event_ttl_seconds)) is not None:
        found["service-ranges"] = repair
    services = registry.find("", "v1", "services")
    if services is None or not isinstance(services.strategy, ServiceStrategy):
        return found
    addresses = services.strategy.addresses
    if addresses.address_objects is not None:
        default = DefaultServiceCidr(
            store, addresses, EventRecorder(store, CONTROLLER, event_ttl_seconds, identity, clock)
        )
        await default.reconcile()
        events = EventRecorder(store, REPAIR, event_ttl_seconds, identity, clock)
        address_repair = AddressRepair(store, addresses.address_objects, events, clock)
        await address_repair.once()
        found |= {"default-service-cidr": default, "address-repair": address_repair}
    return found

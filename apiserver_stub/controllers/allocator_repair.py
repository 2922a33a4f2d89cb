"""Repair loop for Service IP and node port allocations: detect conflicts, record events and release leaked allocations.

A crash between two writes leaks an allocation. It is released after several consecutive passes, since another server
may have allocated it for a Service that it is about to write. Duplicate and out-of-range allocations require an
administrator; they are reported as events of the Service.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

from apiserver_stub.apimachinery import objects
from apiserver_stub.apimachinery.objects import Object
from apiserver_stub.kinds.range_allocation import AllocationConflict, RangeAllocation, Snapshot, numbers_of
from apiserver_stub.kinds.service_allocators import ServiceAllocators, used_by
from apiserver_stub.kinds.services import ServiceStrategy
from apiserver_stub.storage import Outcome, Put, Record, StoreRejected, StoreUnavailable
from apiserver_stub.validation.addresses import parse_address
from nodeagent.base.structs import Struct

if TYPE_CHECKING:
    from apiserver_stub.kinds.registry import Registry
    from apiserver_stub.storage import Store

_log = logging.getLogger(__name__)

REPAIR_SECONDS = 180.0
LEAKED_AFTER = 3
"""Number of consecutive passes that find an allocation unused before it is released."""
_TRIES = 10
_STEP = 200
_MAX_EVENTS = 200
"""Maximum number of events per range and pass."""
_SERVICES = "core/services"
_EVENTS = "core/events"


class Finding(Struct, frozen=True):
    """Invalid allocation of a Service, as an event reports it."""

    service: Object
    reason: str
    action: str
    note: str


class RangeKind(Struct, frozen=True):
    """A range, and the wording of events about it."""

    allocation: RangeAllocation
    reporter: str
    prefix: str
    """Prefix of event reasons."""
    action: str
    describe: Callable[[int], str]
    """Format a number of the range for event notes."""
    outside: str
    """Name of the range in event notes."""

    def finding(self, service: Object, state: str, number: int, note: str) -> Finding:
        return Finding(service, f"{self.prefix}{state}", self.action, f"{self.describe(number)} {note}")


async def repair_service_ranges(store: Store, registry: Registry, event_ttl_seconds: int | None) -> Repair | None:
    """Repair the ranges before the first Service is written, and return the controller that repeats this.

    :raises StoreUnavailable: the store is unavailable.
    """
    resource = registry.find("", "v1", "services")
    if resource is None or not isinstance(resource.strategy, ServiceStrategy):
        return None
    repair = Repair(store, resource.strategy.addresses, event_ttl_seconds)
    try:
        await repair.once()
    except StoreRejected as error:
        # Without ranges nothing can be allocated, but all other requests can be served.
        _log.error("Failed to read Service ranges", extra={"err": error})
    return repair


class Repair:
    """Controller that reconciles the allocations with the Services."""

    def __init__(self, store: Store, addresses: ServiceAllocators, event_ttl_seconds: int | None) -> None:
        self._store, self._addresses, self._event_ttl_seconds = store, addresses, event_ttl_seconds
        self._kinds = [_addresses(item, version, addresses) for version, item in addresses.bitmaps.items()]
        self._kinds.append(_ports(addresses.ports))
        self._leaks: dict[str, dict[int, int]] = {}

    async def run(self) -> None:
        """Repair every :data:`REPAIR_SECONDS` until cancelled."""
        while True:
            await asyncio.sleep(REPAIR_SECONDS)
            try:
                await self.once()
            except (StoreUnavailable, StoreRejected) as error:
                _log.warning("Failed to repair Service ranges", extra={"err": error})
            except Exception as error:
                # One malformed Service must not end the repair of all others.
                _log.error("Failed to repair Service ranges", extra={"err": error}, exc_info=error)

    async def once(self) -> None:
        """Repair every range.

        :raises StoreUnavailable: the store is unavailable.
        """
        for kind in self._kinds:
            await self._repair(kind)

    async def _repair(self, kind: RangeKind) -> None:
        allocation, store = kind.allocation, self._store
        for _ in range(_TRIES):
            before = await allocation.snapshot(store)
            await store.catch_up(_SERVICES)  # The Services must not be older than the snapshot.
            services = await self._services()
            used, findings = compare(kind, self._addresses, services, before)
            kept, leaks = self._possible_leaks(allocation, before, used)
            try:
                await allocation.replace(store, before, used | kept)
            except AllocationConflict:
                continue
            self._leaks[allocation.key] = leaks
            _log_leaks(allocation, leaks)
            for finding in findings[:_MAX_EVENTS]:
                await self._report(kind, finding)
                await asyncio.sleep(0)
            if len(findings) > _MAX_EVENTS:
                fields = {"range": allocation.key, "findings": len(findings), "reported": _MAX_EVENTS}
                _log.warning("Too many Services with invalid addresses or ports, omitting some events", extra=fields)
            return
        _log.warning("Failed to repair Service range, it changes too often", extra={"range": allocation.key})

    async def _services(self) -> list[Object]:
        """Return all Services; yields to the event loop regularly."""
        found = []
        for number, record in enumerate(self._store.collection(_SERVICES).select(), 1):
            found.append(objects.decode(record.data))
            if number % _STEP == 0:
                await asyncio.sleep(0)
        return found

    def _possible_leaks(
        self, allocation: RangeAllocation, before: Snapshot, used: set[int]
    ) -> tuple[set[int], dict[int, int]]:
        """Return the unused allocations to keep for now, and the consecutive passes of each unused allocation."""
        if before.range != allocation.range:
            return set(), {}
        seen = self._leaks.get(allocation.key, {})
        leaks = {
            number: seen.get(number, 0) + 1
            for number in numbers_of(allocation.first, before.bits)
            if number not in used and number in allocation
        }
        return {number for number, times in leaks.items() if times < LEAKED_AFTER}, leaks

    async def _report(self, kind: RangeKind, finding: Finding) -> None:
        """Log *finding*, and create its event or increment the count of the existing one."""
        service, store = finding.service, self._store
        metadata = service["metadata"]
        fields = {"service": objects.key_of(metadata["namespace"], metadata["name"]), "reason": finding.reason}
        _log.warning("Invalid Service allocation: %s", finding.note, extra=fields)
        digest = hashlib.sha256(f"{metadata.get('uid')} {finding.reason} {finding.note}".encode()).hexdigest()[:16]
        key = objects.key_of(metadata["namespace"], f"{metadata['name']}.{digest}")

        def decide(current: Record | None) -> Outcome:
            event = _event(kind, finding, digest) if current is None else objects.decode(current.data)
            if current is not None:
                count = ((event.get("series") or {}).get("count") or 1) + 1
                event["series"] = {"count": count, "lastObservedTime": objects.now_micro()}
            return Put(objects.encode_for_store(event), self._event_ttl_seconds)

        await store.update(_EVENTS, key, decide)


def compare(
    kind: RangeKind, addresses: ServiceAllocators, services: Iterable[Object], before: Snapshot
) -> tuple[set[int], list[Finding]]:
    """Return the numbers of the range that *services* use, and the invalid allocations."""
    allocation = kind.allocation
    known = set(numbers_of(allocation.first, before.bits)) if before.range == allocation.range else set()
    used: set[int] = set()
    findings: list[Finding] = []
    for service in services:
        for number in _numbers(kind, addresses, service, findings):
            if number not in allocation:
                note = f"is not within the {kind.outside} {allocation.range}; please recreate service"
                findings.append(kind.finding(service, "OutOfRange", number, note))
            elif number in used:
                note = "was assigned to multiple services; please recreate service"
                findings.append(kind.finding(service, "AlreadyAllocated", number, note))
            else:
                used.add(number)
                # Without a stored record nothing was ever allocated, which is not an error of the Service.
                if number not in known and before.revision:
                    findings.append(kind.finding(service, "NotAllocated", number, "is not allocated; repairing"))
    return used, findings


def _numbers(kind: RangeKind, addresses: ServiceAllocators, service: Object, findings: list[Finding]) -> Sequence[int]:
    """Return the numbers that *service* uses: ports, or addresses of the family of the range."""
    use = used_by(service)
    if kind.allocation is addresses.ports:
        return use.ports
    found = []
    for text in use.addresses:
        address = parse_address(text)
        served = address is not None and address.version in addresses.bitmaps
        if address is not None and served:
            if addresses.bitmaps[address.version] is kind.allocation:
                found.append(int(address))
        elif kind.allocation.key == "serviceips":  # Reported once, with the primary range.
            what = "is not a valid IP" if address is None else "is of ip family that is no longer configured on cluster"
            note = f"Cluster IP {text} {what}; please recreate service"
            findings.append(Finding(service, "ClusterIPNotValid", "ClusterIPValidation", note))
    return found


def _addresses(allocation: RangeAllocation, version: int, addresses: ServiceAllocators) -> RangeKind:
    build = type(addresses.networks[version].network_address)
    return RangeKind(
        allocation,
        "ipallocator-repair-controller",
        "ClusterIP",
        "ClusterIPAllocation",
        lambda number: f"Cluster IP [IPv{version}]:{build(number)}",
        "service CIDR",
    )


def _ports(allocation: RangeAllocation) -> RangeKind:
    return RangeKind(
        allocation,
        "portallocator-repair-controller",
        "Port",
        "PortAllocation",
        lambda number: f"Port {number}",
        "port range",
    )


def _log_leaks(allocation: RangeAllocation, leaks: dict[int, int]) -> None:
    fresh = sum(times == 1 for times in leaks.values())
    freed = sum(times >= LEAKED_AFTER for times in leaks.values())
    if fresh or freed:
        fields = {"range": allocation.key, "new": fresh, "freed": freed}
        _log.warning("Found leaked Service allocations", extra=fields)


def _event(kind: RangeKind, finding: Finding, digest: str) -> Object:
    metadata = finding.service["metadata"]
    regarding = {name: metadata[name] for name in ("namespace", "name", "uid", "resourceVersion") if metadata.get(name)}
    return {
        "kind": "Event",
        "apiVersion": "v1",
        "metadata": {
            "name": f"{metadata['name']}.{digest}",
            "namespace": metadata["namespace"],
            "uid": objects.new_uid(),
            "creationTimestamp": objects.now(),
        },
        "involvedObject": {"kind": "Service", "apiVersion": "v1", **regarding},
        "reason": finding.reason,
        "message": finding.note,
        "source": {},
        "firstTimestamp": None,
        "lastTimestamp": None,
        "type": "Warning",
        "eventTime": objects.now_micro(),
        "action": finding.action,
        "reportingComponent": kind.reporter,
        "reportingInstance": kind.reporter,
    }

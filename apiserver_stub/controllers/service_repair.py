"""What is taken from the ranges of services is what services have: compared, told and put right every few minutes.

A crash between two writes leaves a number that nobody has. It is free again once it was found several times in a row,
because another server may have taken it for a service that it is about to write. What two services share, or what is
outside the ranges, only people can put right: an event on the service says so.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from apiserver_stub.apimachinery import objects
from apiserver_stub.apimachinery.objects import Object
from apiserver_stub.kinds.range_allocation import Moved, RangeAllocation, Snapshot, numbers_of
from apiserver_stub.kinds.service_addresses import ServiceAddresses, used_by
from apiserver_stub.kinds.services import ServiceStrategy
from apiserver_stub.storage import Outcome, Put, Record, StoreRefused, StoreUnavailable
from apiserver_stub.validation.addresses import parse_address

if TYPE_CHECKING:
    from apiserver_stub.kinds.registry import Registry
    from apiserver_stub.storage import Store

_log = logging.getLogger(__name__)

REPAIR_SECONDS = 180.0
LEAKED_AFTER = 3
"""So many times in a row nobody has a number until it is free."""
_TRIES = 10
_STEP = 200
_MAX_EVENTS = 200
"""Of one range and pass; more would only displace each other."""
_SERVICES = "core/services"
_EVENTS = "core/events"


@dataclass(frozen=True, slots=True)
class Finding:
    """What is wrong with a service, in the words of events."""

    service: Object
    reason: str
    action: str
    note: str


@dataclass(frozen=True, slots=True)
class Kind:
    """One range, and how its numbers are called."""

    allocation: RangeAllocation
    reporter: str
    prefix: str
    """What the reasons begin with."""
    action: str
    shown: Callable[[int], str]
    """A number as notes name it."""
    outside: str

    def finding(self, service: Object, state: str, number: int, note: str) -> Finding:
        return Finding(service, f"{self.prefix}{state}", self.action, f"{self.shown(number)} {note}")


async def repair_service_ranges(store: Store, registry: Registry, event_ttl_seconds: int | None) -> Repair | None:
    """Repair the ranges before the first service is written, and return what goes on with that.

    :raises StoreUnavailable: the store does not answer.
    """
    resource = registry.find("", "v1", "services")
    if resource is None or not isinstance(resource.strategy, ServiceStrategy):
        return None
    repair = Repair(store, resource.strategy.addresses, event_ttl_seconds)
    try:
        await repair.once()
    except StoreRefused as error:  # nothing is given out then, and all else is served
        _log.error("Ranges of services cannot be read", extra={"err": error})
    return repair


class Repair:
    """Controller that compares the ranges with the services."""

    def __init__(self, store: Store, addresses: ServiceAddresses, event_ttl_seconds: int | None) -> None:
        self._store, self._addresses, self._event_ttl_seconds = store, addresses, event_ttl_seconds
        self._kinds = [_addresses(item, version, addresses) for version, item in addresses.addresses.items()]
        self._kinds.append(_ports(addresses.ports))
        self._leaks: dict[str, dict[int, int]] = {}

    async def run(self) -> None:
        """Repair every few minutes until cancelled."""
        while True:
            await asyncio.sleep(REPAIR_SECONDS)
            try:
                await self.once()
            except (StoreUnavailable, StoreRefused) as error:
                _log.warning("Failed to repair Service ranges", extra={"err": error})
            except Exception as error:
                # One malformed Service must not end the repair of all others.
                _log.error("Failed to repair Service ranges", extra={"err": error}, exc_info=error)

    async def once(self) -> None:
        """Repair every range.

        :raises StoreUnavailable: the store does not answer.
        """
        for kind in self._kinds:
            await self._repair(kind)

    async def _repair(self, kind: Kind) -> None:
        allocation, store = kind.allocation, self._store
        for _ in range(_TRIES):
            before = await allocation.snapshot(store)
            await store.catch_up(_SERVICES)  # no older than the snapshot, or a new service would be missing
            services = await self._services()
            used, findings = compare(kind, self._addresses, services, before)
            kept, leaks = self._doubtful(allocation, before, used)
            try:
                await allocation.replace(store, before, used | kept)
            except Moved:
                continue
            self._leaks[allocation.key] = leaks
            _tell_leaks(allocation, leaks)
            for finding in findings[:_MAX_EVENTS]:
                await self._tell(kind, finding)
                await asyncio.sleep(0)
            if len(findings) > _MAX_EVENTS:
                about = {"range": allocation.key, "findings": len(findings), "reported": _MAX_EVENTS}
                _log.warning("Too many Services have invalid addresses or ports, some are not reported", extra=about)
            return
        _log.warning("A range is too busy to be compared with the services", extra={"range": allocation.key})

    async def _services(self) -> list[Object]:
        """Return all services, reading them in steps that let others run."""
        found = []
        for number, record in enumerate(self._store.collection(_SERVICES).select(), 1):
            found.append(objects.decode(record.data))
            if number % _STEP == 0:
                await asyncio.sleep(0)
        return found

    def _doubtful(
        self, allocation: RangeAllocation, before: Snapshot, used: set[int]
    ) -> tuple[set[int], dict[int, int]]:
        """Return the taken numbers that nobody has and that stay taken, and how often each was found so."""
        if before.range != allocation.range:
            return set(), {}
        seen = self._leaks.get(allocation.key, {})
        leaks = {
            number: seen.get(number, 0) + 1
            for number in numbers_of(allocation.first, before.bits)
            if number not in used and number in allocation
        }
        return {number for number, times in leaks.items() if times < LEAKED_AFTER}, leaks

    async def _tell(self, kind: Kind, finding: Finding) -> None:
        """Log *finding*, and write an event about it or count it in the one that is there."""
        service, store = finding.service, self._store
        metadata = service["metadata"]
        about = {"service": objects.key_of(metadata["namespace"], metadata["name"]), "reason": finding.reason}
        _log.warning("A service has what it should not: %s", finding.note, extra=about)
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
    kind: Kind, addresses: ServiceAddresses, services: Iterable[Object], before: Snapshot
) -> tuple[set[int], list[Finding]]:
    """Return the numbers of the range that *services* have, and what is wrong with them."""
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
                # Without a record none was ever given out: then that is no mistake of the service.
                if number not in known and before.revision:
                    findings.append(kind.finding(service, "NotAllocated", number, "is not allocated; repairing"))
    return used, findings


def _numbers(kind: Kind, addresses: ServiceAddresses, service: Object, findings: list[Finding]) -> Sequence[int]:
    """Return what *service* has of the family of the range, or of the ports."""
    use = used_by(service)
    if kind.allocation is addresses.ports:
        return use.ports
    found = []
    for text in use.addresses:
        address = parse_address(text)
        served = address is not None and address.version in addresses.addresses
        if address is not None and served:
            if addresses.addresses[address.version] is kind.allocation:
                found.append(int(address))
        elif kind.allocation.key == "serviceips":  # told once, with the primary range
            what = "is not a valid IP" if address is None else "is of ip family that is no longer configured on cluster"
            note = f"Cluster IP {text} {what}; please recreate service"
            findings.append(Finding(service, "ClusterIPNotValid", "ClusterIPValidation", note))
    return found


def _addresses(allocation: RangeAllocation, version: int, addresses: ServiceAddresses) -> Kind:
    build = type(addresses.networks[version].network_address)
    return Kind(
        allocation,
        "ipallocator-repair-controller",
        "ClusterIP",
        "ClusterIPAllocation",
        lambda number: f"Cluster IP [IPv{version}]:{build(number)}",
        "service CIDR",
    )


def _ports(allocation: RangeAllocation) -> Kind:
    return Kind(
        allocation,
        "portallocator-repair-controller",
        "Port",
        "PortAllocation",
        lambda number: f"Port {number}",
        "port range",
    )


def _tell_leaks(allocation: RangeAllocation, leaks: dict[int, int]) -> None:
    fresh = sum(times == 1 for times in leaks.values())
    freed = sum(times >= LEAKED_AFTER for times in leaks.values())
    if fresh or freed:
        about = {"range": allocation.key, "new": fresh, "freed": freed}
        _log.warning("Some of what is taken from a range no service has", extra=about)


def _event(kind: Kind, finding: Finding, digest: str) -> Object:
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

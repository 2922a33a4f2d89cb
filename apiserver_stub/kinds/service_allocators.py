"""Ranges of cluster IPs and node ports, and the allocations of one write of a service."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from apiserver_stub.apimachinery.objects import Object
from apiserver_stub.apimachinery.status import internal
from apiserver_stub.kinds.address_allocation import AddressAllocation, ServiceName
from apiserver_stub.kinds.range_allocation import AllocationError, RangeAllocation
from apiserver_stub.kinds.service_fields import needs_cluster_ip, needs_node_ports, node_ports
from apiserver_stub.storage import Store, StoreRejected, StoreUnavailable
from apiserver_stub.validation.addresses import parse_address
from apiserver_stub.validation.services import needs_health_port

if TYPE_CHECKING:
    from apiserver_stub.kinds.address_objects import AddressObjects
    from apiserver_stub.kinds.settings import Network

Allocation = RangeAllocation | AddressAllocation
_log = logging.getLogger(__name__)

_KEYS = ("serviceips", "secondaryserviceips")
_IPV6_LIMIT = 1 << 16
"""Maximum count of addresses that are allocated from an IPv6 network."""
_DRY_RUN_PORT = 32768


class ServiceAllocations(NamedTuple):
    """Cluster IPs and node ports of a service."""

    addresses: tuple[str, ...]
    ports: tuple[int, ...]


class ServiceAllocators:
    """The ranges for addresses of *networks*, the primary one first, and for node *ports*.

    spec: opt.service-cluster-ip-range, opt.service-node-port-range

    :param address_objects: objects that record the addresses instead of bitmaps
        (spec: gate.MultiCIDRServiceAllocator).
    """

    def __init__(
        self, networks: Sequence[Network], ports: range, address_objects: AddressObjects | None = None
    ) -> None:
        self.networks: dict[int, Network] = {network.version: network for network in networks}
        self.address_objects = address_objects
        self.bitmaps: dict[int, RangeAllocation] = {}
        """Ranges of addresses by IP version, unless objects record them."""
        if address_objects is None:
            self.bitmaps = {
                network.version: _of_network(key, network) for key, network in zip(_KEYS, networks, strict=False)
            }
            self.addresses: Mapping[int, Allocation] = self.bitmaps
        else:
            self.addresses = {version: AddressAllocation(address_objects, version) for version in self.networks}
        kept = min(max(16, len(ports) // 32), 128) if len(ports) > 16 else 0
        port_range = f"{ports.start}-{ports.stop - 1}"
        self.ports = RangeAllocation(
            "servicenodeports", port_range, ports.start, len(ports), kept, "provided port is already allocated"
        )

    def numbers(self, allocations: ServiceAllocations) -> dict[Allocation, set[int]]:
        """Return the numbers of *allocations* in each range; addresses and ports outside of all ranges are omitted."""
        numbers: dict[Allocation, set[int]] = {self.ports: {port for port in allocations.ports if port in self.ports}}
        for text in allocations.addresses:
            address = parse_address(text)
            if address is None or (allocation := self.addresses.get(address.version)) is None:
                continue
            if int(address) in allocation:
                numbers.setdefault(allocation, set()).add(int(address))
        return numbers


class ServiceReservation:
    """Allocations of one write of a service, and those that it releases if it succeeds.

    :param service: the service that is written.
    :param before: addresses and ports of the service before the write.
    :param dry_run: allocate nothing; the first address of the network and fixed ports are placeholders.
    """

    def __init__(
        self,
        ranges: ServiceAllocators,
        store: Store,
        service: ServiceName,
        before: ServiceAllocations,
        *,
        dry_run: bool,
    ) -> None:
        self.ranges, self.before = ranges, before
        self._store, self._service, self._dry_run = store, service, dry_run
        self._allocated: list[tuple[Allocation, int]] = []
        self._released_on_success: dict[Allocation, set[int]] = {}
        self._placeholder_ports: list[int] = []

    async def allocate_address(self, version: int, requested: str = "") -> str:
        """Allocate a free address of IP *version*, or *requested*.

        :raises AllocationError: *requested* is not available.
        :raises ApiError: 500, no address is available.
        """
        network, allocation = self.ranges.networks[version], self.ranges.addresses[version]
        if requested:
            address = parse_address(requested)
            if address is None or address.version != version or int(address) not in allocation:
                raise AllocationError(
                    f"failed to allocate IP {requested}: the provided IP ({address}) is not in the valid range. "
                    f"The range of valid IPs is {network}"
                )
            try:
                await self._allocate(allocation, int(address))
            except AllocationError as error:
                raise AllocationError(f"failed to allocate IP {requested}: {error}") from error
            return requested
        if self._dry_run:
            return str(network.network_address)
        try:
            number = await self._allocate(allocation)
        except AllocationError as error:
            raise internal(f"failed to allocate a serviceIP: {error}") from error
        return str(type(network.network_address)(number))

    async def allocate_port(self, requested: int = 0) -> int:
        """Allocate a free node port, or *requested*.

        :raises AllocationError: *requested* is not available.
        :raises ApiError: 500, no port is available.
        """
        allocation = self.ranges.ports
        if self._dry_run:
            return self._placeholder_port(requested)
        if requested:
            if requested not in allocation:
                raise AllocationError(
                    f"provided port is not in the valid range. The range of valid ports is {allocation.range}"
                )
            return await self._allocate(allocation, requested)
        try:
            return await self._allocate(allocation)
        except AllocationError as error:
            raise internal(f"failed to allocate a nodePort: {error}") from error

    def _placeholder_port(self, requested: int) -> int:
        """Return *requested*, or a number above those returned before; as upstream, it is not limited to the range.

        :raises AllocationError: *requested* is already allocated.
        """
        allocation = self.ranges.ports
        number = requested or max(self._placeholder_ports, default=_DRY_RUN_PORT) + 1
        if number in self._placeholder_ports or (
            requested in allocation and allocation.is_allocated(self._store, requested)
        ):
            raise AllocationError(allocation.in_use_error)
        self._placeholder_ports.append(number)
        return number

    async def _allocate(self, allocation: Allocation, requested: int | None = None) -> int:
        if self._dry_run and requested is not None:
            if isinstance(allocation, AddressAllocation):
                allocation.check(self._store, requested)
            return requested
        if isinstance(allocation, AddressAllocation):
            number = await allocation.allocate(self._store, self._service, requested)
        else:
            number = await allocation.allocate(self._store, requested)
        self._allocated.append((allocation, number))
        return number

    def leave(self, after: ServiceAllocations) -> None:
        """Set the addresses and ports that the service has after the write to *after*."""
        kept = self.ranges.numbers(after)
        for allocation, numbers in self.ranges.numbers(self.before).items():
            self._released_on_success[allocation] = numbers - kept.get(allocation, set())

    async def keep(self) -> None:
        if not self._dry_run:
            await self._release_numbers(self._released_on_success)

    async def release(self) -> None:
        taken: dict[Allocation, set[int]] = {}
        for allocation, number in self._allocated:
            taken.setdefault(allocation, set()).add(number)
        self._allocated.clear()
        await self._release_numbers(taken)

    async def _release_numbers(self, by_range: dict[Allocation, set[int]]) -> None:
        for allocation, numbers in by_range.items():
            try:
                await allocation.release(self._store, numbers)
            except (StoreUnavailable, StoreRejected, AllocationError) as error:
                fields = {"range": allocation.key, "numbers": len(numbers), "err": error}
                _log.warning("Failed to release service allocations, repair loop will retry", extra=fields)


def used_by(service: Object) -> ServiceAllocations:
    """Return the addresses and node ports of *service*."""
    spec = service.get("spec") or {}
    addresses = (spec.get("clusterIPs") or [spec.get("clusterIP") or ""]) if needs_cluster_ip(spec) else ()
    ports = {*node_ports(spec)} if needs_node_ports(spec) else set()
    if needs_health_port(spec) and spec.get("healthCheckNodePort"):
        ports.add(spec["healthCheckNodePort"])
    return ServiceAllocations(tuple(ip for ip in addresses if ip not in ("", "None")), tuple(sorted(ports)))


def _of_network(key: str, network: Network) -> RangeAllocation:
    """Return the range of *network* without its first address and, for IPv4, its last address."""
    size = network.num_addresses - 2 if network.version == 4 else min(network.num_addresses, _IPV6_LIMIT) - 1
    total = network.num_addresses
    kept = min(max(16, total // 16), 256) if total > 16 else 0
    first = int(network.network_address) + 1
    return RangeAllocation(key, str(network), first, size, kept, "provided IP is already allocated")

"""Cluster addresses and node ports of services: the ranges they come from, and what one write takes and gives back."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from apiserver_stub.apimachinery.objects import Object
from apiserver_stub.apimachinery.status import internal
from apiserver_stub.kinds.range_allocation import RangeAllocation, Refused
from apiserver_stub.kinds.service_fields import needs_cluster_ip, needs_node_ports, node_ports
from apiserver_stub.storage import Store, StoreRefused, StoreUnavailable
from apiserver_stub.validation.addresses import parse_address
from apiserver_stub.validation.services import needs_health_port

if TYPE_CHECKING:
    from apiserver_stub.kinds.settings import Network

_log = logging.getLogger(__name__)

_KEYS = ("serviceips", "secondaryserviceips")
_MOST_ADDRESSES = 1 << 16
"""So many of an IPv6 network are given out."""
_DRY_RUN_PORT = 32768


class Use(NamedTuple):
    """What a service has."""

    addresses: tuple[str, ...]
    ports: tuple[int, ...]


class ServiceAddresses:
    """The ranges: addresses of *networks*, the primary one first, and node *ports* (spec: opt.service-cluster-ip-range,
    opt.service-node-port-range)."""

    def __init__(self, networks: Sequence[Network], ports: range) -> None:
        self.networks: dict[int, Network] = {network.version: network for network in networks}
        self.addresses: dict[int, RangeAllocation] = {
            network.version: _of_network(key, network) for key, network in zip(_KEYS, networks, strict=False)
        }
        kept = min(max(16, len(ports) // 32), 128) if len(ports) > 16 else 0
        shown = f"{ports.start}-{ports.stop - 1}"
        self.ports = RangeAllocation(
            "servicenodeports", shown, ports.start, len(ports), kept, "provided port is already allocated"
        )

    def numbers(self, use: Use) -> dict[RangeAllocation, set[int]]:
        """Return the numbers that stand for *use* in each range; what is outside of all has none."""
        found: dict[RangeAllocation, set[int]] = {self.ports: {port for port in use.ports if port in self.ports}}
        for text in use.addresses:
            address = parse_address(text)
            if address is None or (allocation := self.addresses.get(address.version)) is None:
                continue
            if int(address) in allocation:
                found.setdefault(allocation, set()).add(int(address))
        return found


class ServiceReservation:
    """What one write of a service takes from the ranges, and what it gives back once it is made.

    :param before: what the service has so far.
    :param dry_run: nothing is taken; what would be chosen is stood for by the first address and the ports behind all.
    """

    def __init__(self, ranges: ServiceAddresses, store: Store, before: Use, *, dry_run: bool) -> None:
        self.ranges, self.before = ranges, before
        self._store, self._dry_run = store, dry_run
        self._taken: list[tuple[RangeAllocation, int]] = []
        self._given_up: dict[RangeAllocation, set[int]] = {}
        self._stand_ins: list[int] = []

    async def take_address(self, version: int, wanted: str = "") -> str:
        """Return a free address of IP *version*, or *wanted*.

        :raises Refused: *wanted* is not to be had.
        :raises ApiError: 500, none is to be had.
        """
        network, allocation = self.ranges.networks[version], self.ranges.addresses[version]
        if wanted:
            address = parse_address(wanted)
            if address is None or address.version != version or int(address) not in allocation:
                raise Refused(
                    f"failed to allocate IP {wanted}: the provided IP ({address}) is not in the valid range. "
                    f"The range of valid IPs is {network}"
                )
            try:
                await self._take(allocation, int(address))
            except Refused as error:
                raise Refused(f"failed to allocate IP {wanted}: {error}") from error
            return wanted
        if self._dry_run:
            return str(network.network_address)
        try:
            number = await self._take(allocation)
        except Refused as error:
            raise internal(f"failed to allocate a serviceIP: {error}") from error
        return str(type(network.network_address)(number))

    async def take_port(self, wanted: int = 0) -> int:
        """Return a free node port, or *wanted*.

        :raises Refused: *wanted* is not to be had.
        :raises ApiError: 500, none is to be had.
        """
        allocation = self.ranges.ports
        if self._dry_run:
            return self._stand_in_port(wanted)
        if wanted:
            if wanted not in allocation:
                raise Refused(
                    f"provided port is not in the valid range. The range of valid ports is {allocation.range}"
                )
            return await self._take(allocation, wanted)
        try:
            return await self._take(allocation)
        except Refused as error:
            raise internal(f"failed to allocate a nodePort: {error}") from error

    def _stand_in_port(self, wanted: int) -> int:
        """Return *wanted*, or a number behind those that were returned so far; the range is not looked at, as upstream.

        :raises Refused: *wanted* is taken.
        """
        allocation = self.ranges.ports
        number = wanted or max(self._stand_ins, default=_DRY_RUN_PORT) + 1
        if number in self._stand_ins or (wanted in allocation and allocation.is_taken(self._store, wanted)):
            raise Refused(allocation.taken)
        self._stand_ins.append(number)
        return number

    async def _take(self, allocation: RangeAllocation, wanted: int | None = None) -> int:
        if self._dry_run and wanted is not None:
            return wanted
        number = await allocation.take(self._store, wanted)
        self._taken.append((allocation, number))
        return number

    def leave(self, after: Use) -> None:
        """Let *after* be what the service has once the write is made."""
        kept = self.ranges.numbers(after)
        for allocation, numbers in self.ranges.numbers(self.before).items():
            self._given_up[allocation] = numbers - kept.get(allocation, set())

    async def keep(self) -> None:
        if not self._dry_run:
            await self._give_back(self._given_up)

    async def release(self) -> None:
        taken: dict[RangeAllocation, set[int]] = {}
        for allocation, number in self._taken:
            taken.setdefault(allocation, set()).add(number)
        self._taken.clear()
        await self._give_back(taken)

    async def _give_back(self, found: dict[RangeAllocation, set[int]]) -> None:
        for allocation, numbers in found.items():
            try:
                await allocation.give_back(self._store, numbers)
            except (StoreUnavailable, StoreRefused, Refused) as error:
                about = {"range": allocation.key, "numbers": len(numbers), "err": error}
                _log.warning("What services no longer have is free after the next repairs only", extra=about)


def used_by(service: Object) -> Use:
    """Return the addresses and node ports of *service*."""
    spec = service.get("spec") or {}
    addresses = (spec.get("clusterIPs") or [spec.get("clusterIP") or ""]) if needs_cluster_ip(spec) else ()
    ports = {*node_ports(spec)} if needs_node_ports(spec) else set()
    if needs_health_port(spec) and spec.get("healthCheckNodePort"):
        ports.add(spec["healthCheckNodePort"])
    return Use(tuple(ip for ip in addresses if ip not in ("", "None")), tuple(sorted(ports)))


def _of_network(key: str, network: Network) -> RangeAllocation:
    """Return the range of the addresses of *network*, without the first one and the last one of IPv4."""
    size = network.num_addresses - 2 if network.version == 4 else min(network.num_addresses, _MOST_ADDRESSES) - 1
    total = network.num_addresses
    kept = min(max(16, total // 16), 256) if total > 16 else 0
    first = int(network.network_address) + 1
    return RangeAllocation(key, str(network), first, size, kept, "provided IP is already allocated")

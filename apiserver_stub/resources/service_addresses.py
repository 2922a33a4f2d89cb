"""Cluster addresses and node ports of services: which are free, and giving them out.

What is in use is read from the services themselves, so there is no second record that could be wrong after a crash.
What was given to a service that is being written is held back for a while: until it is seen, or was never stored.
"""

from __future__ import annotations

import logging
import random
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from ipaddress import ip_address
from typing import TYPE_CHECKING, TypeVar

from apiserver_stub.objects import Object, decode
from apiserver_stub.status import internal

if TYPE_CHECKING:
    from apiserver_stub.options.services import Network
    from apiserver_stub.store.collection import Collection

_log = logging.getLogger(__name__)

_HELD_SECONDS = 10.0
_TRIES = 20

V = TypeVar("V", str, int)
Use = tuple[tuple[str, ...], tuple[int, ...]]


class Refused(ValueError):
    """An address or port cannot be had; the text says why."""


class ServiceAddresses:
    """Gives out addresses of *networks* and ports of *ports* (spec: opt.service-cluster-ip-range,
    opt.service-node-port-range)."""

    def __init__(self, networks: Sequence[Network], ports: range, *, now: Callable[[], float] = time.monotonic) -> None:
        self.networks, self.ports = networks, ports
        self._services: Collection | None = None
        self._uses: dict[str, tuple[int, Use]] = {}
        self._held: dict[str | int, float] = {}
        self._now = now
        self._random = random.Random()  # noqa: S311 - spread, not secrecy

    def follow(self, services: Collection) -> None:
        """Begin with what *services* have, and tell of those that share an address or stand outside the ranges."""
        self._services = services
        addresses: Counter[str] = Counter()
        ports: Counter[int] = Counter()
        for ips, numbers in self._current():
            addresses.update(ips)
            ports.update(numbers)
        for value, count in [*addresses.items(), *ports.items()]:
            if count > 1:
                _log.warning("Services share what each should have alone", extra={"value": value, "services": count})
        for text in addresses:
            if self.network_of(text) is None:
                _log.warning("A service has an address outside the ranges", extra={"address": text})

    def network_of(self, text: str) -> Network | None:
        """Return the range that holds *text*."""
        address = ip_address(text)
        return next((network for network in self.networks if address in network), None)

    def take_address(self, network: Network, wanted: str = "") -> str:
        """Return a free address of *network*, or *wanted*.

        :raises Refused: *wanted* is not to be had.
        :raises ApiError: 500, none is free.
        """
        used = {ip for ips, _ in self._current() for ip in ips}
        base, last = int(network.network_address), int(network.broadcast_address) - (network.version == 4)
        if wanted:
            address = ip_address(wanted)
            if address not in network or not base < int(address) <= last:
                shown = ",".join(str(item) for item in self.networks)
                raise Refused(
                    f"failed to allocate IP {wanted}: the provided IP ({wanted}) is not in the valid range. "
                    f"The range of valid IPs is {shown}"
                )
            if self._is_taken(str(address), used):
                raise Refused(f"failed to allocate IP {wanted}: provided IP is already allocated")
            return self._hold(str(address))
        build = type(network.network_address)
        size = last - base
        # The lower part is left to those who choose their address themselves, as long as there is room above.
        kept = min(max(16, size // 16), 256) if size > 16 else 0
        numbers = range(base + 1 + kept, last + 1), range(base + 1, base + 1 + kept)
        free = self._pick(numbers, lambda number: not self._is_taken(str(build(number)), used))
        if free is None:
            raise internal("failed to allocate a serviceIP: range is full")
        return self._hold(str(build(free)))

    def take_port(self, wanted: int = 0) -> int:
        """Return a free node port, or *wanted*.

        :raises Refused: *wanted* is not to be had.
        :raises ApiError: 500, none is free.
        """
        used = {port for _, ports in self._current() for port in ports}
        if wanted:
            if wanted not in self.ports:
                shown = f"{self.ports.start}-{self.ports.stop - 1}"
                raise Refused(f"provided port is not in the valid range. The range of valid ports is {shown}")
            if self._is_taken(wanted, used):
                raise Refused("provided port is already allocated")
            return self._hold(wanted)
        kept = min(max(16, len(self.ports) // 32), 128) if len(self.ports) > 16 else 0
        numbers = self.ports[kept:], self.ports[:kept]
        free = self._pick(numbers, lambda number: not self._is_taken(number, used))
        if free is None:
            raise internal("failed to allocate a nodePort: range is full")
        return self._hold(free)

    def _pick(self, parts: Iterable[range], is_free: Callable[[int], bool]) -> int | None:
        for part in parts:
            for _ in range(_TRIES if part else 0):
                number = part[self._random.randrange(len(part))]
                if is_free(number):
                    return number
            for number in part:
                if is_free(number):
                    return number
        return None

    def _is_taken(self, value: str | int, used: set[str] | set[int]) -> bool:
        return value in used or self._held.get(value, 0) > self._now()

    def _hold(self, value: V) -> V:
        now = self._now()
        self._held = {held: until for held, until in self._held.items() if until > now}
        self._held[value] = now + _HELD_SECONDS
        return value

    def _current(self) -> list[Use]:
        """Return what each service has now; only those that changed are read."""
        if self._services is None:
            return []
        records = self._services.select()
        uses = {}
        for record in records:
            known = self._uses.get(record.key)
            uses[record.key] = (
                known if known and known[0] == record.revision else (record.revision, used_by(decode(record.data)))
            )
        self._uses = uses
        found = [use for _, use in uses.values()]
        if self._held:
            seen = {value for both in found for part in both for value in part}
            self._held = {value: until for value, until in self._held.items() if value not in seen}
        return found


def used_by(service: Object) -> Use:
    """Return the addresses and node ports of *service*."""
    spec = service.get("spec") or {}
    addresses = spec.get("clusterIPs") or [spec.get("clusterIP") or ""]
    ports = {port["nodePort"] for port in spec.get("ports") or () if port.get("nodePort")}
    if spec.get("healthCheckNodePort"):
        ports.add(spec["healthCheckNodePort"])
    return tuple(ip for ip in addresses if ip not in ("", "None")), tuple(ports)

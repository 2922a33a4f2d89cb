"""Node addresses."""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Sequence
from ipaddress import IPv4Address, IPv6Address, ip_address

from nodeagent.base.aio import Clock
from nodeagent.model.node import NodeAddress

INTERNAL_IP = "InternalIP"
HOSTNAME = "Hostname"
_REFRESH_SECONDS = 60.0
_LOOKUP_SECONDS = 10.0
_PROBE_TARGETS = {4: (socket.AF_INET, "192.0.2.1"), 6: (socket.AF_INET6, "2001:db8::1")}
"""Documentation addresses: connecting a UDP socket sends no packet, but selects a source address."""

_log = logging.getLogger(__name__)
IpAddress = IPv4Address | IPv6Address


class NodeAddresses:
    """Detects the node's addresses, and refreshes them periodically because DNS may change.

    :param configured: addresses of the flag ``--node-ip``; ``0.0.0.0`` and ``::`` only select the IP family.
    """

    def __init__(self, node_name: str, configured: Sequence[str], clock: Clock) -> None:
        self._node_name, self._clock = node_name, clock
        self._configured = [ip_address(text) for text in configured]
        self._found: list[str] = []
        self._refreshed_at: float | None = None
        self._failing = False

    async def current(self) -> list[NodeAddress]:
        """Return the IP addresses, then the hostname."""
        now = self._clock.now()
        if self._refreshed_at is None or now - self._refreshed_at >= _REFRESH_SECONDS:
            self._refreshed_at = now
            try:
                async with asyncio.timeout(_LOOKUP_SECONDS):
                    found = await asyncio.to_thread(find_ips, self._node_name, self._configured)
            except TimeoutError:  # The name server does not respond; keep the previous addresses.
                found = []
            self._update(found)
        return [*(NodeAddress(type=INTERNAL_IP, address=ip) for ip in self._found), self._name()]

    def _update(self, found: list[str]) -> None:
        if not found and not self._failing:
            _log.warning("Failed to detect node addresses", extra={"node": self._node_name})
        self._failing = not found
        self._found = found or self._found

    def _name(self) -> NodeAddress:
        return NodeAddress(type=HOSTNAME, address=self._node_name)


def find_ips(node_name: str, configured: Sequence[IpAddress]) -> list[str]:
    """Return the configured IP addresses, else the node name if it is one, its DNS lookup, or the default route's."""
    exact = [str(ip) for ip in configured if not ip.is_unspecified]
    if exact:
        return exact
    family = configured[0].version if configured else 0
    for candidate in (*_from_name(node_name, family), *_from_routes(family)):
        if usable(candidate) and _is_local(candidate):
            return [str(candidate)]
    return []


def usable(ip: IpAddress) -> bool:
    """Return whether *ip* is reachable from other nodes."""
    return not (ip.is_loopback or ip.is_link_local or ip.is_multicast or ip.is_unspecified)


def _from_name(name: str, family: int) -> list[IpAddress]:
    try:
        return [ip_address(name)]
    except ValueError:
        pass
    try:
        results = socket.getaddrinfo(name, None, type=socket.SOCK_DGRAM)
    except OSError:
        return []
    found = [ip_address(str(result[4][0]).partition("%")[0]) for result in results]
    return sorted((ip for ip in found if family in (0, ip.version)), key=lambda ip: ip.version)


def _from_routes(family: int) -> list[IpAddress]:
    found = []
    for version, (kind, target) in _PROBE_TARGETS.items():
        if family not in (0, version):
            continue
        try:
            with socket.socket(kind, socket.SOCK_DGRAM) as probe:
                probe.connect((target, 9))
                found.append(ip_address(probe.getsockname()[0]))
        except OSError:  # No route of this family.
            continue
    return found


def _is_local(ip: IpAddress) -> bool:
    """Return whether *ip* is assigned to an interface of this host, by binding a socket to it."""
    try:
        with socket.socket(_PROBE_TARGETS[ip.version][0], socket.SOCK_DGRAM) as probe:
            probe.bind((str(ip), 0))
    except OSError:
        return False
    return True

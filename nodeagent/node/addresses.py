"""At which addresses the node is reached."""

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
_FAR_AWAY = {4: (socket.AF_INET, "192.0.2.1"), 6: (socket.AF_INET6, "2001:db8::1")}
"""Addresses of nobody: connecting a datagram socket sends nothing and tells the source address."""

_log = logging.getLogger(__name__)
IpAddress = IPv4Address | IPv6Address


class NodeAddresses:
    """Finds the node's addresses, and looks again now and then because a lookup may change.

    :param given: addresses from the flag ``--node-ip``; ``0.0.0.0`` and ``::`` only choose the family.
    """

    def __init__(self, node_name: str, given: Sequence[str], clock: Clock) -> None:
        self._node_name, self._clock = node_name, clock
        self._given = [ip_address(text) for text in given]
        self._found: list[str] = []
        self._found_at: float | None = None
        self._failing = False

    async def current(self) -> list[NodeAddress]:
        """Return IP addresses, then the host name."""
        now = self._clock.now()
        if self._found_at is None or now - self._found_at >= _REFRESH_SECONDS:
            self._found_at = now
            try:
                async with asyncio.timeout(_LOOKUP_SECONDS):
                    found = await asyncio.to_thread(find_ips, self._node_name, self._given)
            except TimeoutError:  # a dead name server; what was found before stays
                found = []
            self._note(found)
        return [*(NodeAddress(type=INTERNAL_IP, address=ip) for ip in self._found), self._name()]

    def _note(self, found: list[str]) -> None:
        if not found and not self._failing:
            _log.warning("No address of this node found", extra={"node": self._node_name})
        self._failing = not found
        self._found = found or self._found

    def _name(self) -> NodeAddress:
        return NodeAddress(type=HOSTNAME, address=self._node_name)


def find_ips(node_name: str, given: Sequence[IpAddress]) -> list[str]:
    """Return the node's IP addresses: those given, else the name itself, its lookup, or the default route's source."""
    exact = [str(ip) for ip in given if not ip.is_unspecified]
    if exact:
        return exact
    family = given[0].version if given else 0
    for candidate in (*_from_name(node_name, family), *_from_routes(family)):
        if usable(candidate) and _is_ours(candidate):
            return [str(candidate)]
    return []


def usable(ip: IpAddress) -> bool:
    """Return whether others can reach a node at *ip*."""
    return not (ip.is_loopback or ip.is_link_local or ip.is_multicast or ip.is_unspecified)


def _from_name(name: str, family: int) -> list[IpAddress]:
    try:
        return [ip_address(name)]
    except ValueError:
        pass
    try:
        answers = socket.getaddrinfo(name, None, type=socket.SOCK_DGRAM)
    except OSError:
        return []
    found = [ip_address(str(answer[4][0]).partition("%")[0]) for answer in answers]
    return sorted((ip for ip in found if family in (0, ip.version)), key=lambda ip: ip.version)


def _from_routes(family: int) -> list[IpAddress]:
    found = []
    for version, (kind, target) in _FAR_AWAY.items():
        if family not in (0, version):
            continue
        try:
            with socket.socket(kind, socket.SOCK_DGRAM) as probe:
                probe.connect((target, 9))
                found.append(ip_address(probe.getsockname()[0]))
        except OSError:  # no such route
            continue
    return found


def _is_ours(ip: IpAddress) -> bool:
    """Return whether an interface of this machine has *ip*: only then can a socket be bound to it."""
    try:
        with socket.socket(_FAR_AWAY[ip.version][0], socket.SOCK_DGRAM) as probe:
            probe.bind((str(ip), 0))
    except OSError:
        return False
    return True

"""Functions of the Kubernetes CEL libraries for IP addresses and CIDR blocks.

Values are maps with the canonical text, so that equal addresses are equal.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from ipaddress import IPv4Address, IPv4Interface, IPv6Address, IPv6Interface, ip_address, ip_interface
from typing import Any

from apiserver_stub.cel.signatures import Overload

IP, CIDR = "net.IP", "net.CIDR"
_ADDRESS, _BLOCK = "ip", "cidr"


def _parse(text: str) -> IPv4Address | IPv6Address:
    """Return the address.

    :raises ValueError: it is invalid, has a zone or is an IPv4-mapped IPv6 address.
    """
    try:
        address = ip_address(text)
    except ValueError:
        raise ValueError(f"IP Address {text!r} parse error during conversion from string") from None
    if isinstance(address, IPv6Address):
        if address.scope_id is not None:
            raise ValueError(f"IP address {text!r} with zone value is not allowed")
        if address.ipv4_mapped is not None:
            raise ValueError(f"IPv4-mapped IPv6 address {text!r} is not allowed")
    return address


def _parse_block(text: str) -> IPv4Interface | IPv6Interface:
    host, _, length = text.partition("/")
    if not length.isascii() or not length.isdigit() or (length != "0" and length.startswith("0")):
        raise ValueError(f"network address parse error during conversion from string: {text!r}")
    _parse(host)
    try:
        return ip_interface(text)
    except ValueError:
        raise ValueError(f"network address parse error during conversion from string: {text!r}") from None


def _is_valid(parse: Callable[[str], Any]) -> Callable[[str], bool]:
    def run(text: str) -> bool:
        try:
            parse(text)
        except ValueError:
            return False
        return True

    return run


def _value(address: IPv4Address | IPv6Address) -> dict[str, Any]:
    return {_ADDRESS: str(address)}


def _block(interface: IPv4Interface | IPv6Interface) -> dict[str, Any]:
    return {_BLOCK: str(interface)}


def _masked(block: dict[str, Any]) -> dict[str, Any]:
    return {_BLOCK: str(ip_interface(block[_BLOCK]).network)}


def _contains_address(block: dict[str, Any], address: Any) -> bool:
    text = address if isinstance(address, str) else address[_ADDRESS]
    return _parse(text) in ip_interface(block[_BLOCK]).network


def _contains_block(block: dict[str, Any], other: Any) -> bool:
    text = other if isinstance(other, str) else other[_BLOCK]
    outer, inner = ip_interface(block[_BLOCK]).network, _parse_block(text).network
    is_inside = inner.prefixlen >= outer.prefixlen and inner.network_address in outer
    return outer.version == inner.version and is_inside


def _of_address(test: Callable[[IPv4Address | IPv6Address], Any]) -> Callable[[dict[str, Any]], Any]:
    return lambda value: test(ip_address(value[_ADDRESS]))


def _is_link_local_multicast(address: IPv4Address | IPv6Address) -> bool:
    if isinstance(address, IPv4Address):
        return address.packed[:3] == b"\xe0\x00\x00"
    return address.packed[0] == 0xFF and address.packed[1] & 0x0F == 0x02


def _is_global_unicast(address: IPv4Address | IPv6Address) -> bool:
    """Return whether Go calls *address* a global unicast address, which includes private ones."""
    is_broadcast = address.version == 4 and address.packed == b"\xff" * 4
    special = address.is_unspecified or address.is_loopback or address.is_multicast or address.is_link_local
    return not special and not is_broadcast


def _addresses() -> Iterator[Overload]:
    yield Overload("ip", ("string",), IP, lambda text: _value(_parse(text)), member=False)
    yield Overload("isIP", ("string",), "bool", _is_valid(_parse), member=False)
    tests: dict[str, Callable[[IPv4Address | IPv6Address], bool]] = {
        "isUnspecified": lambda address: address.is_unspecified,
        "isLoopback": lambda address: address.is_loopback,
        "isLinkLocalMulticast": _is_link_local_multicast,
        "isLinkLocalUnicast": lambda address: address.is_link_local,
        "isGlobalUnicast": _is_global_unicast,
    }
    for name, test in tests.items():
        yield Overload(name, (IP,), "bool", _of_address(test))
    yield Overload("family", (IP,), "int", _of_address(lambda address: address.version))


def _blocks() -> Iterator[Overload]:
    yield Overload("cidr", ("string",), CIDR, lambda text: _block(_parse_block(text)), member=False)
    yield Overload("isCIDR", ("string",), "bool", _is_valid(_parse_block), member=False)
    for kind in (IP, "string"):
        yield Overload("containsIP", (CIDR, kind), "bool", _contains_address)
    for kind in (CIDR, "string"):
        yield Overload("containsCIDR", (CIDR, kind), "bool", _contains_block)
    yield Overload("ip", (CIDR,), IP, lambda block: _value(ip_interface(block[_BLOCK]).ip))
    yield Overload("masked", (CIDR,), CIDR, _masked)
    yield Overload("prefixLength", (CIDR,), "int", lambda block: ip_interface(block[_BLOCK]).network.prefixlen)


FUNCTIONS = (*_addresses(), *_blocks())

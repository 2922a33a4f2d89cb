"""IP addresses and CIDR blocks as the API accepts them: as Go before 1.17, numbers may have leading zeros. No I/O."""

from __future__ import annotations

import re
from collections.abc import Collection
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address

from apiserver_stub.apimachinery.status import Cause, invalid_value
from nodeagent.base.text_cache import text_cache

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network

ADDRESS_RULE = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"

_BARE_RULE = "must be a valid IP address"
_DOTTED = re.compile(r"(?:[0-9]{1,64}\.){3}[0-9]{1,64}")
_LEADING_ZEROS = re.compile(r"(?<![0-9a-fA-F])0+(?=[0-9a-fA-F])")
_LENGTH = re.compile("0*([0-9]{1,3})")
_LINK_LOCAL_MULTICAST = IPv4Network("224.0.0.0/24")


def parse_address(text: str) -> Address | None:
    """Return the address, ``None`` for an invalid one; an IPv4-mapped IPv6 address is an IPv4 address."""
    address = _parse(text)
    return address.ipv4_mapped or address if isinstance(address, IPv6Address) else address


def parse_cidr(text: str) -> Network | None:
    """Return the block, which may have host bits, or ``None`` for an invalid one."""
    host, _, length = text.partition("/")
    address, digits = _parse(host), _LENGTH.fullmatch(length)
    if address is None or digits is None or (bits := int(digits[1])) > address.max_prefixlen:
        return None
    if isinstance(address, IPv4Address):
        return IPv4Network((address, bits), strict=False)
    return IPv6Network((address, bits), strict=False)


def family(value: Address | Network) -> str:
    """Return ``IPv4`` or ``IPv6``; a block of mapped addresses is of IPv4."""
    if isinstance(value, IPv6Network) and value.network_address.ipv4_mapped is not None:
        return "IPv4"
    return f"IPv{value.version}"


def validate_address(text: str, field: str) -> list[Cause]:
    """Return the error in an IP address."""
    return [] if parse_address(text) is not None else [invalid_value(field, text, ADDRESS_RULE)]


def validate_legacy_address(
    text: str, field: str, *, is_strict: bool = False, stored: Collection[str] = (), rule: str = ADDRESS_RULE
) -> list[Cause]:
    """Return the error in an IP address of a field that once accepted ambiguous notations.

    :param stored: addresses of the stored object, which are accepted in any notation.
    :param rule: message for texts that are no addresses.
    """
    if text in stored:
        return []
    if parse_address(text) is None:
        return [invalid_value(field, text, rule)]
    if not is_strict:
        return []
    try:
        address = ip_address(text.partition("%")[0])
    except ValueError:
        return [invalid_value(field, text, "must not have leading 0s")]
    if isinstance(address, IPv6Address) and address.ipv4_mapped is not None:
        return [invalid_value(field, text, "must not be an IPv4-mapped IPv6 address")]
    return []


def validate_remote_address(text: str, field: str) -> list[Cause]:
    """Return why an IP address does not name another host, as those of endpoints and external IPs do."""
    address = parse_address(text)
    if address is None:
        return [invalid_value(field, text, _BARE_RULE)]
    causes = []
    if address.is_unspecified:
        causes.append(invalid_value(field, text, f"may not be unspecified ({text})"))
    if address.is_loopback:
        causes.append(invalid_value(field, text, "may not be in the loopback range (127.0.0.0/8, ::1/128)"))
    if address.is_link_local:
        causes.append(invalid_value(field, text, "may not be in the link-local range (169.254.0.0/16, fe80::/10)"))
    if _is_link_local_multicast(address):
        detail = "may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)"
        causes.append(invalid_value(field, text, detail))
    return causes


def _is_link_local_multicast(address: Address) -> bool:
    if isinstance(address, IPv4Address):
        return address in _LINK_LOCAL_MULTICAST
    return address.packed[0] == 0xFF and address.packed[1] & 0x0F == 0x02


@text_cache(4096)
def _parse(text: str) -> Address | None:
    head, colon, tail = text.rpartition(":")
    if "." in tail:
        if not _DOTTED.fullmatch(tail):
            return None
        tail = ".".join(str(int(part)) for part in tail.split("."))
    try:
        if not colon:
            return IPv4Address(tail)
        return None if "%" in text else IPv6Address(_LEADING_ZEROS.sub("", f"{head}:{tail}"))
    except ValueError:
        return None

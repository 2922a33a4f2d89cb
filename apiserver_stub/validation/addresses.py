"""IP addresses as the API accepts them: as Go before 1.17, numbers of IPv4 addresses may have leading zeros."""

from __future__ import annotations

import re
from functools import lru_cache
from ipaddress import IPv4Address, IPv6Address

from apiserver_stub.status import Cause, invalid_value

ADDRESS_RULE = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"

_DOTTED = re.compile(r"(?:[0-9]{1,64}\.){3}[0-9]{1,64}")


@lru_cache(maxsize=4096)
def parse_address(text: str) -> IPv4Address | IPv6Address | None:
    """Return the address, ``None`` for an invalid one; an IPv4-mapped IPv6 address is an IPv4 address."""
    head, colon, tail = text.rpartition(":")
    if "." in tail:
        if not _DOTTED.fullmatch(tail):
            return None
        tail = ".".join(str(int(part)) for part in tail.split("."))
    try:
        if not colon:
            return IPv4Address(tail)
        address = IPv6Address(f"{head}:{tail}") if "%" not in text else None
    except ValueError:
        return None
    return address.ipv4_mapped or address if address is not None else None


def validate_address(text: str, field: str) -> list[Cause]:
    """Return the error in an IP address."""
    return [] if parse_address(text) is not None else [invalid_value(field, text, ADDRESS_RULE)]

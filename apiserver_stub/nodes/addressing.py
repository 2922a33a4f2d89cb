"""Names in proxy paths, and the addresses that a proxy may connect to. No I/O."""

from __future__ import annotations

from ipaddress import IPv4Address, IPv6Address, ip_address

from apiserver_stub.apimachinery.status import bad_request


def split_name(text: str, kind: str) -> tuple[str, str, str]:
    """Return scheme, name and port of ``[scheme:]name[:port]``; missing parts are empty.

    :raises ApiError: 400, the text has another form.
    """
    parts = text.split(":")
    match parts:
        case [name]:
            found = ("", name, "")
        case [name, port]:
            found = ("", name, port)
        case [scheme, name, port]:
            found = (scheme, name, port)
        case _:
            found = ("", "", "")
    if not found[1] or found[0] not in ("", "http", "https"):
        raise bad_request(f'invalid {kind} request "{text}"')
    return found


_BROADCAST = IPv4Address("255.255.255.255")


def only_global(host: str) -> str:
    """Return *host* if a proxy may connect to it: neither a loopback nor a link-local address, nor one for many hosts.

    :raises ApiError: 400, the address is not allowed or invalid.
    """
    try:
        address = ip_address(host)
    except ValueError:
        raise bad_request("address not allowed") from None
    if isinstance(address, IPv6Address):
        address = address.ipv4_mapped or address  # A connection to ::ffff:127.0.0.1 reaches 127.0.0.1.
    special = address.is_loopback or address.is_link_local or address.is_multicast or address.is_unspecified
    if special or address == _BROADCAST:
        raise bad_request("address not allowed")
    return host


def is_port(text: str) -> bool:
    """Return whether *text* is a valid port number."""
    return text.isascii() and text.isdigit() and len(text) <= 5 and 0 < int(text) < 1 << 16

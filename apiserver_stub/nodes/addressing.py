"""Names in the paths of proxies, and the addresses that a proxy may lead to (pure)."""

from __future__ import annotations

from ipaddress import ip_address

from apiserver_stub.apimachinery.status import bad_request


def split_name(text: str, kind: str) -> tuple[str, str, str]:
    """Return scheme, name and port of ``[scheme:]name[:port]``; what is not there is empty.

    :raises ApiError: 400, it is none of these.
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


def only_global(host: str) -> str:
    """Return *host* when a proxy may lead there: never to this machine itself or to its link.

    :raises ApiError: 400, it is no such address.
    """
    try:
        address = ip_address(host)
    except ValueError:
        raise bad_request("address not allowed") from None
    if address.is_loopback or address.is_link_local or address.is_multicast or address.is_unspecified:
        raise bad_request("address not allowed")
    return host


def is_port(text: str) -> bool:
    """Return whether *text* is the number of a port."""
    return text.isascii() and text.isdigit() and len(text) <= 5 and 0 < int(text) < 1 << 16

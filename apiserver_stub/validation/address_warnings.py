"""Warnings about addresses that are valid today: kube-apiserver quotes the errors of Go's strict parser. No I/O."""

from __future__ import annotations

import re
from ipaddress import IPv6Address

from apiserver_stub.apimachinery.status import quote

_FUTURE = "was accepted, but will be invalid in a future Kubernetes release"
_LOOPS = "which may cause controller apply-loops"
_HEX = re.compile("[0-9a-fA-F]*")
_MOST_DIGITS = 18
_BITS = re.compile(r"[+-]?\d+", re.ASCII)


class _Unparsable(ValueError):
    """A text that Go's ``net/netip`` rejects, with its error."""


def ip_warnings(field: str, text: str) -> list[str]:
    """Return the warning about the IP address *text*, if there is one."""
    try:
        canonical = _parse_address(text)
    except _Unparsable as error:
        return [f"{field}: IP address {_FUTURE}: {error}"]
    if ":" in canonical and canonical != text:
        shown = f"{quote(text)} is not in RFC 5952 canonical format ({quote(canonical)})"
        return [f"{field}: IPv6 address {shown}, {_LOOPS}"]
    return []


def cidr_warnings(field: str, text: str) -> list[str]:
    """Return the warning about the CIDR block *text*, if there is one."""
    try:
        canonical = _parse_prefix(text)
    except _Unparsable as error:
        return [f"{field}: IP prefix {_FUTURE}: netip.ParsePrefix({quote(text)}): {error}"]
    if ":" in canonical and canonical != text:
        shown = f"{quote(text)} is not in RFC 5952 canonical format ({quote(canonical)})"
        return [f"{field}: IPv6 prefix {shown}, {_LOOPS}"]
    return []


def _parse_prefix(text: str) -> str:
    host, slash, length = text.rpartition("/")
    if not slash:
        raise _Unparsable("no '/'")
    canonical = _parse_address(host)
    if "%" in canonical:
        raise _Unparsable("IPv6 zones cannot be present in a prefix")
    if not _BITS.fullmatch(length):
        raise _Unparsable(f"bad bits after slash: {quote(length)}")
    if len(length) > _MOST_DIGITS or not 0 <= int(length) <= (128 if ":" in canonical else 32):
        raise _Unparsable("prefix length out of range")
    return f"{canonical}/{int(length)}"


def _parse_address(text: str) -> str:
    """Return *text* in canonical form.

    :raises _Unparsable: Go rejects it.
    """
    first = next((character for character in text if character in ".:%"), "")
    if first == ".":
        return _parse_dotted(text)
    if first == ":":
        return _parse_groups(text)
    raise _error(text, "missing IPv6 address" if first else "unable to parse IP")


def _error(text: str, problem: str, rest: str = "") -> _Unparsable:
    return _Unparsable(f"ParseAddr({quote(text)}): {problem}{f' (at {quote(rest)})' if rest else ''}")


def _parse_dotted(text: str) -> str:
    octet, dots = "", 0
    for index, character in enumerate(text):
        if character in "0123456789":
            if octet == "0":
                raise _error(text, "IPv4 field has octet with leading zero")
            octet += character
            if int(octet) > 255:
                raise _error(text, "IPv4 field has value >255")
        elif character == ".":
            if not octet or index == len(text) - 1:
                raise _error(text, "IPv4 field must have at least one digit", text[index:])
            if dots == 3:
                raise _error(text, "IPv4 address too long")
            octet, dots = "", dots + 1
        else:
            raise _error(text, "unexpected character", text[index:])
    if dots < 3:
        raise _error(text, "IPv4 address too short")
    return text


def _parse_groups(text: str) -> str:
    rest, percent, zone = text.partition("%")
    if percent and not zone:
        raise _error(text, "zone must be a non-empty string")
    head: list[int] = []
    tail: list[int] | None = None
    """Bytes before and after the ellipsis."""
    if rest.startswith("::"):
        tail, rest = [], rest[2:]
        if not rest:
            return f"::{percent}{zone}"
    while (count := len(head) + len(tail or ())) < 16:
        digits = _HEX.match(rest)[0]  # type: ignore[index]  # Matches always, the empty text too.
        _check_group(text, rest, digits)
        found = head if tail is None else tail
        if rest[len(digits) :].startswith("."):
            found += _embedded(text, rest, count, ellipsis=tail is not None)
            rest = ""
            break
        found += divmod(int(digits, 16), 256)
        rest = rest[len(digits) :]
        if not rest:
            break
        if rest[0] != ":":
            raise _error(text, "unexpected character, want colon", rest)  # wording: ok
        if len(rest) == 1:
            raise _error(text, "colon must be followed by more characters", rest)
        rest = rest[1:]
        if rest[0] == ":":
            if tail is not None:
                raise _error(text, "multiple :: in address", rest)
            tail, rest = [], rest[1:]
            if not rest:
                break
    if rest:
        raise _error(text, "trailing garbage after address", rest)
    missing = 16 - len(head) - len(tail or ())
    if missing and tail is None:
        raise _error(text, "address string too short")
    if not missing and tail is not None:
        raise _error(text, "the :: must expand to at least one field of zeros")
    address = IPv6Address(bytes([*head, *[0] * missing, *(tail or ())]))
    canonical = f"::ffff:{address.ipv4_mapped}" if address.ipv4_mapped is not None else str(address)
    return f"{canonical}{percent}{zone}"


def _check_group(text: str, rest: str, digits: str) -> None:
    if not digits:
        raise _error(text, "each colon-separated field must have at least one digit", rest)
    if int(digits, 16) > 0xFFFF:
        raise _error(text, "IPv6 field has value >=2^16", rest)


def _embedded(text: str, rest: str, count: int, *, ellipsis: bool) -> bytes:
    if not ellipsis and count != 12:
        raise _error(text, "embedded IPv4 address must replace the final 2 fields of the address", rest)
    if count > 12:
        raise _error(text, "too many hex fields to fit an embedded IPv4 at the end of the address", rest)
    try:
        return bytes(map(int, _parse_dotted(rest).split(".")))
    except _Unparsable as error:
        raise _error(text, str(error), rest) from None

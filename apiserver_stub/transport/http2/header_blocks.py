"""Conversion of request and response headers between HTTP/2 fields and HTTP/1.1 lines. No I/O."""

from __future__ import annotations

import re
from collections.abc import Iterable

_TOKEN = re.compile(rb"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_PATH = re.compile(rb"(?:/[^\x00-\x20\x7f]*|\*)")
_BREAKS = re.compile(rb"[\x00\r\n]")
_OF_ONE_CONNECTION = frozenset([b"connection", b"keep-alive", b"proxy-connection", b"transfer-encoding", b"upgrade"])
CHUNKED = b"transfer-encoding: chunked\r\n"

Fields = list[tuple[bytes, bytes]]


class BadHeadError(Exception):
    """The fields are not a valid request header block."""


def method_of(fields: Iterable[tuple[bytes, bytes]]) -> bytes:
    """Return the method of a request, empty if it has none."""
    return next((value for name, value in fields if name == b":method"), b"")


def request_lines(fields: Iterable[tuple[bytes, bytes]], *, body: bool) -> tuple[bytes, bool]:
    """Return the request line and headers, and whether the body is chunked, since its length is not specified.

    Fields with line breaks are rejected, which prevents request smuggling.

    :param body: a body follows.
    :raises BadHeadError: a field, the method or the path is invalid.
    """
    method = path = host = b""
    length_specified = False
    cookies: list[bytes] = []
    lines: list[bytes] = []
    for name, value in fields:
        if _BREAKS.search(value):
            raise BadHeadError(f"field {name!r} contains a line break")
        if name == b":method":
            method = value
        elif name == b":path":
            path = value
        elif name == b":authority":
            host = value
        elif name.startswith(b":"):
            continue
        elif not _TOKEN.fullmatch(name) or name in _OF_ONE_CONNECTION:
            raise BadHeadError(f"field {name!r} is not allowed in HTTP/2")
        elif name == b"host":
            host = host or value
        elif name == b"cookie":
            cookies.append(value)
        else:
            length_specified = length_specified or name == b"content-length"
            lines.append(b"%b: %b\r\n" % (name, value))
    if not _TOKEN.fullmatch(method) or not _PATH.fullmatch(path):
        raise BadHeadError("malformed method or path")
    if cookies:
        lines.append(b"cookie: %b\r\n" % b"; ".join(cookies))
    chunked = body and not length_specified
    if chunked:
        lines.append(CHUNKED)
    return b"%b %b HTTP/1.1\r\nhost: %b\r\n%b\r\n" % (method, path, host, b"".join(lines)), chunked


def response_fields(code: int, headers: Iterable[tuple[bytes, bytes]]) -> tuple[Fields, bool]:
    """Return the fields of a response, and whether its headers close the connection."""
    fields: Fields = [(b":status", b"%d" % code)]
    closes = False
    for name, value in headers:
        lower = name.lower()
        if lower not in _OF_ONE_CONNECTION:
            fields.append((lower, value))
        elif lower == b"connection":
            closes = value.strip().lower() == b"close"
    return fields, closes

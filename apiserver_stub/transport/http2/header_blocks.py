"""Header blocks of HTTP/2 requests and responses. No I/O."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

from multidict import CIMultiDict, CIMultiDictProxy

from apiserver_stub.transport.http import BODILESS, Headers
from apiserver_stub.transport.http_date import http_date

_TOKEN = re.compile(rb"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_PATH = re.compile(rb"(?:/[^\x00-\x20\x7f]*|\*)")
_LENGTH = re.compile(rb"[0-9]{1,18}")
_CONTROL = re.compile(rb"[\x00-\x08\x0a-\x1f\x7f]")
_OF_ONE_CONNECTION = frozenset(["connection", "keep-alive", "proxy-connection", "transfer-encoding", "upgrade"])
_FORBIDDEN = frozenset(name.encode() for name in _OF_ONE_CONNECTION)

Fields = list[tuple[bytes, bytes]]


class BadHeadError(Exception):
    """The fields are not a valid request header block."""


class RequestHead(NamedTuple):
    """Method, target and headers of a request."""

    method: str
    target: str
    headers: CIMultiDictProxy[str]


def method_of(fields: Iterable[tuple[bytes, bytes]]) -> bytes:
    """Return the method of a request, empty if it has none."""
    return next((value for name, value in fields if name == b":method"), b"")


def request_head(fields: Iterable[tuple[bytes, bytes]]) -> RequestHead:
    """Return the head of a request; it has the header ``Host``, and its cookies are one header.

    :raises BadHeadError: a field, the method, the path or the length is invalid.
    """
    method = path = host = b""
    cookies: list[bytes] = []
    headers: CIMultiDict[str] = CIMultiDict(Host="")
    for name, value in fields:
        if _CONTROL.search(value):
            raise BadHeadError(f"field {name!r} contains a control character")
        if name == b":method":
            method = value
        elif name == b":path":
            path = value
        elif name == b":authority":
            host = value
        elif name.startswith(b":"):
            continue
        elif not _TOKEN.fullmatch(name) or name in _FORBIDDEN:
            raise BadHeadError(f"field {name!r} is not allowed in HTTP/2")
        elif name == b"host":
            host = host or value
        elif name == b"cookie":
            cookies.append(value)
        else:
            if name == b"content-length" and (name.decode() in headers or not _LENGTH.fullmatch(value)):
                raise BadHeadError("invalid content-length")
            headers.add(name.decode(), value.decode("utf-8", "surrogateescape"))
    if not _TOKEN.fullmatch(method) or not _PATH.fullmatch(path):
        raise BadHeadError("malformed method or path")
    if cookies:
        headers["cookie"] = b"; ".join(cookies).decode("utf-8", "surrogateescape")
    headers["Host"] = host.decode("utf-8", "surrogateescape")
    return RequestHead(method.decode(), path.decode("utf-8", "surrogateescape"), CIMultiDictProxy(headers))


def response_fields(status: int, headers: Headers, length: int | None) -> Fields:
    """Return the fields of a response, without headers that concern one connection.

    :param length: length of the body, if it is known and not in *headers*.
    """
    fields: Fields = [(b":status", b"%d" % status)]
    dated = False
    for name, value in headers:
        lower = name.lower()
        if lower not in _OF_ONE_CONNECTION:
            fields.append((lower.encode(), value.encode("utf-8", "surrogateescape")))
            dated = dated or lower == "date"
    if length is not None and status not in BODILESS:
        fields.append((b"content-length", b"%d" % length))
    if not dated:
        fields.append((b"date", http_date().encode()))
    return fields

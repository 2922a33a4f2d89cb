"""Headers of forwarded requests, without credentials, and of their responses."""

from __future__ import annotations

from collections.abc import Iterable

from aiohttp import web
from multidict import CIMultiDict, CIMultiDictProxy

from nodeagent.base.tunnel import without_token

_CREDENTIALS = (b"authorization", b"cookie", b"proxy-authorization", b"impersonate-", b"x-remote-")
_HOP_BY_HOP = frozenset(
    [
        b"connection",
        b"keep-alive",
        b"proxy-authenticate",
        b"proxy-connection",
        b"te",
        b"trailer",
        b"transfer-encoding",
        b"upgrade",
        b"content-length",
        b"expect",
    ]
)


def forwarded(http: web.BaseRequest, *, upgrade: bool = False) -> list[tuple[bytes, bytes]]:
    """Return the headers of *http* for the next server; hop-by-hop headers only with *upgrade*."""
    found, before = [], []
    for name, value in http.raw_headers:
        lower = name.lower()
        if lower.startswith(_CREDENTIALS) or (not upgrade and lower in _HOP_BY_HOP):
            continue
        if lower == b"x-forwarded-for":
            before.append(value)
        elif lower == b"sec-websocket-protocol":
            if kept := without_token(value):
                found.append((name, kept))
        else:
            found.append((name, value))
    if http.remote:
        before.append(http.remote.encode())
    if before:
        found.append((b"X-Forwarded-For", b", ".join(before)))
    return found


def as_fields(pairs: Iterable[tuple[bytes, bytes]]) -> CIMultiDict[str]:
    """Return *pairs* as headers of an HTTP client."""
    fields: CIMultiDict[str] = CIMultiDict()
    for name, value in pairs:
        fields.add(name.decode("latin-1"), value.decode("utf-8", "surrogateescape"))
    return fields


def returned(fields: CIMultiDictProxy[str]) -> CIMultiDict[str]:
    """Return the headers of a response for the client, without hop-by-hop headers."""
    kept: CIMultiDict[str] = CIMultiDict()
    for name, value in fields.items():
        if name.lower().encode() not in _HOP_BY_HOP - {b"content-length"}:
            kept.add(name, value)
    return kept

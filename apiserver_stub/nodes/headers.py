"""The header of a request as it goes on: nothing in it proves who asks."""

from __future__ import annotations

from collections.abc import Iterable

from aiohttp import web
from multidict import CIMultiDict, CIMultiDictProxy

from nodeagent.base.tunnel import without_token

_KEPT_TO_OURSELVES = (b"authorization", b"cookie", b"proxy-authorization", b"impersonate-", b"x-remote-")
_OF_ONE_CONNECTION = frozenset(
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
    """Return the header of *http* for the next server; what belongs to one connection goes along with an upgrade."""
    found, before = [], []
    for name, value in http.raw_headers:
        lower = name.lower()
        if lower.startswith(_KEPT_TO_OURSELVES) or (not upgrade and lower in _OF_ONE_CONNECTION):
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
    """Return *pairs* as a client sends them."""
    fields: CIMultiDict[str] = CIMultiDict()
    for name, value in pairs:
        fields.add(name.decode("latin-1"), value.decode("utf-8", "surrogateescape"))
    return fields


def returned(fields: CIMultiDictProxy[str]) -> CIMultiDict[str]:
    """Return the header of an answer for the client."""
    kept: CIMultiDict[str] = CIMultiDict()
    for name, value in fields.items():
        if name.lower().encode() not in _OF_ONE_CONNECTION - {b"content-length"}:
            kept.add(name, value)
    return kept

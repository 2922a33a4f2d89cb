"""Headers of forwarded requests, without credentials, and of their responses."""

from __future__ import annotations

from multidict import CIMultiDict, CIMultiDictProxy

from apiserver_stub.transport.http import HttpRequest
from nodeagent.base import tracing
from nodeagent.base.tunnel import without_token

_CREDENTIALS = ("authorization", "cookie", "proxy-authorization", "impersonate-", "x-remote-")
_HOP_BY_HOP = frozenset(
    [
        "connection",
        "keep-alive",
        "proxy-authenticate",
        "proxy-connection",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
        "content-length",
        "expect",
    ]
)
_TRACE_CONTEXT = ("traceparent", "tracestate", "baggage")


def forwarded(http: HttpRequest, *, upgrade: bool = False) -> CIMultiDict[str]:
    """Return the headers of *http* for the next server; hop-by-hop headers only with *upgrade*.

    While requests are traced, the current span replaces the trace context of the client.
    """
    found: CIMultiDict[str] = CIMultiDict()
    before = []
    context = tracing.outgoing()
    for name, value in http.headers.items():
        lower = name.lower()
        if lower.startswith(_CREDENTIALS) or (not upgrade and lower in _HOP_BY_HOP):
            continue
        if context and lower in _TRACE_CONTEXT:
            continue
        if lower == "x-forwarded-for":
            before.append(value)
        elif lower == "sec-websocket-protocol":
            if kept := without_token(value.encode("utf-8", "surrogateescape")):
                found.add(name, kept.decode("utf-8", "surrogateescape"))
        else:
            found.add(name, value)
    if http.remote:
        before.append(http.remote)
    if before:
        found.add("X-Forwarded-For", ", ".join(before))
    found.update(context)
    return found


def returned(fields: CIMultiDictProxy[str]) -> CIMultiDict[str]:
    """Return the headers of a response for the client, without hop-by-hop headers."""
    kept: CIMultiDict[str] = CIMultiDict()
    for name, value in fields.items():
        if name.lower() not in _HOP_BY_HOP - {"content-length"}:
            kept.add(name, value)
    return kept

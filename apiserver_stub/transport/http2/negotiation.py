"""Protocol negotiation: HTTP/2 or HTTP/1.1, as selected in the TLS handshake (ALPN)."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable
from typing import cast

from nodeagent.base.structs import Struct

_HTTP2, _HTTP1 = "h2", "http/1.1"


class Terms(Struct, frozen=True):
    """Settings of HTTP/2 connections."""

    max_streams: int
    """Maximum number of concurrent requests per connection."""
    goaway_chance: float = 0.0
    """Fraction of requests after which the client is sent GOAWAY."""


def offer_http2(context: ssl.SSLContext) -> None:
    """Offer HTTP/2 and HTTP/1.1 to clients of *context*."""
    context.set_alpn_protocols([_HTTP2, _HTTP1])


class Negotiation(asyncio.Protocol):
    """Passes a connection to the protocol that *http2* or *http1* creates, after the TLS handshake."""

    def __init__(self, http2: Callable[[], asyncio.Protocol], http1: Callable[[], asyncio.Protocol]) -> None:
        self._http2, self._http1 = http2, http1

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        chosen = transport.get_extra_info("ssl_object").selected_alpn_protocol()
        protocol = self._http2() if chosen == _HTTP2 else self._http1()
        cast(asyncio.Transport, transport).set_protocol(protocol)
        protocol.connection_made(transport)

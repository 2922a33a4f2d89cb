"""Which protocol a connection speaks: what its client chose in the handshake."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable
from dataclasses import dataclass
from typing import cast

_HTTP2, _HTTP1 = "h2", "http/1.1"
FAREWELL = "farewell"
"""What the transport of a stream calls the function that makes its connection end after the answer."""


@dataclass(frozen=True, slots=True)
class Terms:
    """What clients of HTTP/2 are given."""

    max_streams: int
    """Requests of one connection at a time."""
    goaway_chance: float = 0.0
    """The part of requests with whose answer the client is told to go elsewhere."""


def offer_http2(context: ssl.SSLContext) -> None:
    """Let clients of *context* choose."""
    context.set_alpn_protocols([_HTTP2, _HTTP1])


def send_goaway(transport: asyncio.BaseTransport | None) -> None:
    """Let the connection of HTTP/2 below *transport* end after the answer; one of HTTP/1.1 stays."""
    if transport is not None and (farewell := transport.get_extra_info(FAREWELL)) is not None:
        farewell()


class Negotiation(asyncio.Protocol):
    """Leaves a connection whose handshake is done to a protocol made by *http2* or *http1*."""

    def __init__(self, http2: Callable[[], asyncio.Protocol], http1: Callable[[], asyncio.Protocol]) -> None:
        self._http2, self._http1 = http2, http1

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        chosen = transport.get_extra_info("ssl_object").selected_alpn_protocol()
        protocol = self._http2() if chosen == _HTTP2 else self._http1()
        cast(asyncio.Transport, transport).set_protocol(protocol)
        protocol.connection_made(transport)

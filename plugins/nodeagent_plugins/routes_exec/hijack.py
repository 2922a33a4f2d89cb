"""Detachment of a client's connection from the HTTP server."""

from __future__ import annotations

from aiohttp import web

from nodeagent.base.tunnel import End, Tunnel


class ConnectionHijacked(web.StreamResponse):
    """Ends a request whose connection was hijacked: no response is left to send."""

    async def prepare(self, request: web.BaseRequest) -> None:
        return None

    async def write_eof(self, data: bytes = b"") -> None:
        return None


def hijack(request: web.BaseRequest, tunnel: Tunnel) -> End:
    """Detach the client's connection from the HTTP server, which is notified of its loss when the request ends.

    :raises ConnectionResetError: the client has disconnected.
    """
    transport, protocol = request.transport, request.protocol
    if transport is None or transport.is_closing():
        raise ConnectionResetError("the client has disconnected")
    client = End(tunnel)
    client.connection_made(transport)
    transport.set_protocol(client)
    request.task.add_done_callback(lambda _: protocol.connection_lost(None))
    return client

"""Client side of an HTTP/1.1 connection, parsed by h11.

Custom, since aiohttp needs 8 MiB of memory and 0.15 s of CPU time at the start.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Mapping
from contextlib import suppress

import h11

from nodeagent.apiclient.transport import ConnectionLost, Response

MAX_HEAD_BYTES = 64 * 1024
_READ_BYTES = 64 * 1024
_WITH_BODY = frozenset({"POST", "PUT", "PATCH"})


class Connection:
    """One connection, for one request after another; the caller limits the time of each method."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer
        self._http = h11.Connection(h11.CLIENT, max_incomplete_event_size=MAX_HEAD_BYTES)
        self.is_new = True
        """True until the second request."""
        _enable_keepalive(writer.get_extra_info("socket"))

    @property
    def reusable(self) -> bool:
        """True if the last response is complete and the server has not closed the connection."""
        done = self._http.our_state is self._http.their_state is h11.DONE
        return done and not self._http.trailing_data[0] and not self._reader.at_eof()

    async def send(self, method: str, target: str, headers: Mapping[str, str], body: bytes = b"") -> Response:
        """Send a request and return the head of its response.

        :raises ConnectionLost: the connection failed, or the request or the response is invalid.
        :raises OSError: the connection failed.
        """
        if self._http.our_state is h11.DONE:
            self._http.start_next_cycle()
            self.is_new = False
        fields = list(headers.items())
        if body or method in _WITH_BODY:
            fields.append(("Content-Length", str(len(body))))
        parts: list[h11.Event] = [h11.EndOfMessage()]
        if body:
            parts.insert(0, h11.Data(data=body))
        try:
            parts.insert(0, h11.Request(method=method, target=target, headers=fields))
            self._writer.write(b"".join(self._http.send(part) or b"" for part in parts))
        except h11.LocalProtocolError as error:
            raise ConnectionLost(f"invalid request: {error}") from error
        while not isinstance(event := await self._next_event(), h11.Response):
            pass  # Informational responses precede the response.
        names_and_values = ((name.decode("latin-1"), value.decode("latin-1")) for name, value in event.headers)
        return Response(event.status_code, dict(names_and_values))

    async def read(self) -> bytes:
        """Return the next piece of the body as it arrives, empty at its end.

        :raises ConnectionLost: the connection failed, or the response is invalid.
        :raises OSError: the connection failed.
        """
        while self._http.their_state is h11.SEND_BODY:
            event = await self._next_event()
            if isinstance(event, h11.Data):
                return bytes(event.data)
        return b""

    def abort(self) -> None:
        """Close the connection without waiting for the server; requests on it fail."""
        self._writer.transport.abort()

    async def _next_event(self) -> h11.Event:
        try:
            while (event := self._http.next_event()) is h11.NEED_DATA:
                data = await self._reader.read(_READ_BYTES)
                if not data and self._http.their_state is h11.SEND_RESPONSE:
                    raise ConnectionLost("server disconnected")
                self._http.receive_data(data)
        except h11.RemoteProtocolError as error:
            raise ConnectionLost(f"invalid response: {error}") from error
        assert isinstance(event, h11.Event)
        return event


def _enable_keepalive(sock: socket.socket | None) -> None:
    """Enable TCP keepalive probes, so that an unreachable server is detected within a minute."""
    if sock is None:
        return
    with suppress(OSError, AttributeError):  # Optional: without it, the idle limit of streams still applies.
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 30)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, 10)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, 3)

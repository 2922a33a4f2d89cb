"""Server side of an HTTP/1.1 connection for small text responses, parsed by h11.

For ports that always serve, where aiohttp would need several MiB of memory; h11 is imported at the first request.
"""

from __future__ import annotations

import asyncio
from http import HTTPStatus
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import h11

MAX_HEAD_BYTES = 16 * 1024
MAX_BODY_BYTES = 1024
_READ_BYTES = 4096


class BadRequest(Exception):
    """The client sent something that is not an HTTP request, or a request that is too large."""


class ServerSide:
    """One connection; the caller limits the time of each method and closes the connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        import h11

        self._reader, self._writer = reader, writer
        self._http = h11.Connection(h11.SERVER, max_incomplete_event_size=MAX_HEAD_BYTES)
        self._method = ""

    async def request(self) -> tuple[str, str] | None:
        """Return method and target of the next request; ``None`` if the client sends no further one.

        :raises BadRequest: see there.
        :raises OSError: the connection failed.
        """
        import h11

        if self._http.our_state is h11.MUST_CLOSE:
            return None
        if self._http.our_state is h11.DONE:
            self._http.start_next_cycle()
        request: h11.Request | None = None
        size = 0
        try:
            while True:
                event = self._http.next_event()
                if event is h11.NEED_DATA:
                    self._http.receive_data(await self._reader.read(_READ_BYTES))
                elif isinstance(event, h11.Request):
                    request, self._method = event, event.method.decode()
                    # A proxy could frame such a request differently: by its length, or without its continued lines.
                    if any(name == b"transfer-encoding" for name, _ in event.headers):
                        raise BadRequest("unsupported transfer encoding")
                elif isinstance(event, h11.Data):
                    size += len(event.data)
                    if size > MAX_BODY_BYTES:
                        raise BadRequest("request body too large")
                elif isinstance(event, h11.EndOfMessage) and request is not None:
                    return self._method, request.target.decode()
                else:
                    return None
        except h11.RemoteProtocolError as error:
            raise BadRequest(str(error)) from None

    async def respond(self, status: int, text: str) -> None:
        """Send a response to the last request.

        :raises OSError: the connection failed.
        """
        import h11

        if self._http.our_state not in (h11.IDLE, h11.SEND_RESPONSE):
            return
        body = text.encode()
        headers = [
            ("Content-Type", "text/plain; charset=utf-8"),
            ("X-Content-Type-Options", "nosniff"),
            ("Content-Length", str(len(body))),
        ]
        response = h11.Response(status_code=status, headers=headers, reason=HTTPStatus(status).phrase)
        parts: list[h11.Event] = [response, h11.EndOfMessage()]
        if self._method != "HEAD":
            parts.insert(1, h11.Data(data=body))
        for part in parts:
            self._writer.write(self._http.send(part) or b"")
        await self._writer.drain()

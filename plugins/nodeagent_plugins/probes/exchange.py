"""One HTTP/1.1 request and its response on an open connection, parsed by h11; sizes are bounded."""

from __future__ import annotations

import re
from collections.abc import Sequence

import h11

from nodeagent.base.structs import Struct
from nodeagent_plugins.probes.outcome import MAX_OUTPUT_BYTES
from nodeagent_plugins.probes.tcp import Connection

Header = tuple[str, str]

_MAX_HEADERS = 200
_MAX_HEADER_BYTES = 1 << 16
_READ_BYTES = 1 << 14
_SWITCHED = re.compile(rb"HTTP/1\.[01] 101\b")


class Response(Struct, frozen=True):
    """Response of a server, with at most 10 KiB of its body."""

    status: int
    location: str = ""
    body: bytes = b""


async def exchange(connection: Connection, target: str, headers: Sequence[Header]) -> Response:
    """Send a GET request for *target* and return the response; informational responses are skipped.

    :raises ValueError: a header is invalid, or the server's response is not HTTP.
    :raises EOFError: the connection was closed before a response.
    """
    http = h11.Connection(h11.CLIENT, max_incomplete_event_size=_MAX_HEADER_BYTES)
    try:
        request = h11.Request(method="GET", target=target.encode(), headers=_encoded(headers))
    except h11.LocalProtocolError as error:
        raise ValueError(f"invalid request: {error}") from error
    connection.writer.write((http.send(request) or b"") + (http.send(h11.EndOfMessage()) or b""))
    status, location, body, first = 0, "", b"", b""
    try:
        while len(body) < MAX_OUTPUT_BYTES:
            event = http.next_event()
            if event is h11.NEED_DATA:
                data = await connection.reader.read(_READ_BYTES)
                if not data and not status and (not first or first.startswith(b"HTTP/")):
                    raise EOFError("EOF")
                first = first or data
                http.receive_data(data)
            elif isinstance(event, h11.Response):
                if len(event.headers) > _MAX_HEADERS:
                    raise ValueError(f"more than {_MAX_HEADERS} response headers")
                status = event.status_code
                location = next((value.decode("latin-1") for name, value in event.headers if name == b"location"), "")
            elif isinstance(event, h11.Data):
                body += event.data
            elif not isinstance(event, h11.InformationalResponse):
                break
    except h11.RemoteProtocolError as error:
        if not status and _SWITCHED.match(first):  # h11 permits this status only after an upgrade request.
            status = 101
        if not status:  # The status of a response with an invalid body counts.
            line = first.partition(b"\r\n")[0].decode("latin-1")
            raise ValueError(f'malformed HTTP response "{line[:100]}"') from error
    except ConnectionError:
        if not status:
            raise
    return Response(status, location, bytes(body[:MAX_OUTPUT_BYTES]))


def _encoded(headers: Sequence[Header]) -> list[tuple[bytes, bytes]]:
    """Return the headers as bytes; h11 permits one ``Host`` and no white space around values."""
    hosts = [value for name, value in headers if name.lower() == "host"][:1]
    others = [(name.encode(), value.strip().encode()) for name, value in headers if name.lower() != "host"]
    return [(b"Host", host.strip().encode()) for host in hosts] + others

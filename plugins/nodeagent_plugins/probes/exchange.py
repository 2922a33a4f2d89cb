"""One HTTP/1.1 request and its response on an open connection; sizes are bounded."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from nodeagent.base.structs import Struct
from nodeagent_plugins.probes.outcome import MAX_OUTPUT_BYTES
from nodeagent_plugins.probes.tcp import Connection

if TYPE_CHECKING:
    import h11

Header = tuple[str, str]

_MAX_HEADERS = 200
_MAX_HEADER_BYTES = 1 << 16
_READ_BYTES = 1 << 14
_LENGTH_DIGITS = 15
_WITHOUT_BODY = (204, 304)
_USUAL = re.compile(
    rb"HTTP/1\.[01] ([2-5][0-9][0-9])(?: [\t\x20-\x7e]*)?\r\n"
    rb"((?:[-!#$%&'*+.^_`|~0-9A-Za-z]+:[\t\x20-\x7e]*\r\n){0,200})\r\n"
)
"""Head of nearly all responses, which is parsed in a fraction of the time that h11 needs."""
_SWITCHED = re.compile(rb"HTTP/1\.[01] 101\b")


class Response(Struct, frozen=True):
    """Response of a server, with at most 10 KiB of its body."""

    status: int
    location: str = ""
    body: bytes = b""


def encode_request(target: str, headers: Sequence[Header]) -> bytes:
    """Return a GET request for *target*.

    :raises ValueError: a header is invalid.
    """
    import h11  # Nodes without HTTP probes do not need its memory.

    try:
        request = h11.Request(method="GET", target=target.encode(), headers=_encoded(headers))
        return _connection(request)[1]
    except h11.LocalProtocolError as error:
        raise ValueError(f"invalid request: {error}") from error


async def exchange(connection: Connection, request: bytes) -> Response:
    """Send *request*, a result of :func:`encode_request`, and return the response; informational ones are skipped.

    :raises ValueError: the server's response is not HTTP.
    :raises EOFError: the connection was closed before a response.
    """
    connection.writer.write(request)
    first = await connection.reader.read(_READ_BYTES)
    head = _USUAL.match(first)
    usual = _parse_usual(head) if head is not None else None
    if head is None or usual is None:
        return await _read_any(connection, first)
    response, length = usual
    body, missing = first[head.end() : head.end() + length], min(length, MAX_OUTPUT_BYTES)
    with contextlib.suppress(ConnectionError):
        while len(body) < missing and (data := await connection.reader.read(_READ_BYTES)):
            body += data
    return Response(response.status, response.location, body[:missing])


def _parse_usual(head: re.Match[bytes]) -> tuple[Response, int] | None:
    """Return the response without its body, and the length of that; ``None`` if it has another form."""
    status, location, length = int(head[1]), "", ""
    for line in head[2].decode().split("\r\n")[:-1]:
        name, _, value = line.partition(":")
        name, value = name.lower(), value.strip()
        if name == "transfer-encoding" or (name == "content-length" and length):
            return None
        if name == "content-length":
            length = value
        elif name == "location":
            location = location or value
    if not length.isdecimal() or len(length) > _LENGTH_DIGITS or status in _WITHOUT_BODY:
        return None
    return Response(status, location), int(length)


async def _read_any(connection: Connection, data: bytes) -> Response:
    """Return the response that starts with *data*, of any form that h11 supports."""
    import h11

    http, _ = _connection(h11.Request(method="GET", target="/", headers=[("Host", "h")]))
    status, location, body, first = 0, "", b"", b""
    try:
        while len(body) < MAX_OUTPUT_BYTES:
            event = http.next_event()
            if event is h11.NEED_DATA:
                data = await connection.reader.read(_READ_BYTES) if first else data
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


def _connection(request: h11.Request) -> tuple[h11.Connection, bytes]:
    """Return a connection that has sent *request*, and the request."""
    import h11

    http = h11.Connection(h11.CLIENT, max_incomplete_event_size=_MAX_HEADER_BYTES)
    return http, (http.send(request) or b"") + (http.send(h11.EndOfMessage()) or b"")


def _encoded(headers: Sequence[Header]) -> list[tuple[bytes, bytes]]:
    """Return the headers as bytes; h11 permits one ``Host`` and no white space around values."""
    hosts = [value for name, value in headers if name.lower() == "host"][:1]
    others = [(name.encode(), value.strip().encode()) for name, value in headers if name.lower() != "host"]
    return [(b"Host", host.strip().encode()) for host in hosts] + others

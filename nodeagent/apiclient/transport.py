"""Transport interface between the client and the HTTP library."""

from __future__ import annotations

import dataclasses
import ssl
from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager
from typing import Protocol

from msgspec import field

from nodeagent.base.structs import Struct

HTTP2 = "h2"
"""Name of HTTP/2 in the negotiation of TLS."""
MAX_BODY_BYTES = 256 * 1024 * 1024
"""Maximum size of a response; a page of 500 large pods is much smaller."""


class Request(Struct, frozen=True):
    """HTTP request; ``target`` is path and query relative to the server's base URL."""

    method: str
    target: str
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""


@dataclasses.dataclass(frozen=True, slots=True)
class Response:
    """HTTP response; header names are in lower case."""

    status: int
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = dataclasses.field(default=b"", repr=False)


class Source(Protocol):
    """Body of a response on a connection."""

    async def read(self) -> bytes:
        """Return the next piece of the body as it arrives, empty at its end.

        :raises ConnectionLost: the connection failed, or the response is invalid.
        :raises OSError: the connection failed.
        """
        ...


class Stream(Struct, frozen=True):
    """Streamed response: its head, and its body in chunks as they arrive."""

    head: Response
    pieces: AsyncIterator[bytes]


class ConnectionLost(Exception):
    """The connection failed before the response was complete."""


def reason_of(error: OSError) -> str:
    """Return the text of an error of a connection."""
    if isinstance(error, ssl.SSLError):
        return error.reason or str(error)
    return error.strerror or str(error)


class Transport(Protocol):
    """Connection pool to one server."""

    host: str
    """The server's host and port, for metrics."""

    async def request(self, request: Request, deadline_seconds: float) -> Response:
        """Send *request* and read the complete response.

        :raises TimeoutError: the response was not complete in time.
        :raises ConnectionLost: the connection failed before the response was complete.
        """
        ...

    def stream(
        self, request: Request, deadline_seconds: float, idle_seconds: float
    ) -> AbstractAsyncContextManager[Stream]:
        """Send *request*, which has no body, and stream the response; an error response is read completely.

        :param deadline_seconds: time limit for the head of the response.
        :param idle_seconds: maximum time between chunks, which then raise ``TimeoutError``.
        :raises TimeoutError: there was no response in time.
        :raises ConnectionLost: the connection failed.
        """
        ...

    async def close(self) -> None: ...

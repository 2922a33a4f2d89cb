"""What carries requests: a seam between the client's rules and an HTTP library."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import Protocol

MAX_BODY_BYTES = 256 * 1024 * 1024
"""A longer answer is refused; a page of 500 large pods stays far below."""


@dataclass(frozen=True, slots=True)
class Request:
    """One request; ``target`` is path and query below the server's base URL."""

    method: str
    target: str
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""


@dataclass(frozen=True, slots=True)
class Response:
    """One answer; header names are in lower case."""

    status: int
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = field(default=b"", repr=False)


@dataclass(frozen=True, slots=True)
class Stream:
    """An answer that goes on: its head, and its content in pieces as they arrive."""

    head: Response
    pieces: AsyncIterator[bytes]


class ConnectionLost(Exception):
    """The connection was refused, reset or closed before the answer was complete."""


class Transport(Protocol):
    """Carries requests to one server, over as few connections as will do."""

    host: str
    """The server's host and port, for metrics."""

    async def request(self, request: Request, deadline_seconds: float) -> Response:
        """Send *request* and read the whole answer.

        :raises TimeoutError: the answer was not complete in time.
        :raises ConnectionLost: there was no complete answer.
        """
        ...

    def stream(
        self, request: Request, deadline_seconds: float, idle_seconds: float
    ) -> AbstractAsyncContextManager[Stream]:
        """Send *request* and read the answer as it comes; one that is no success is read whole.

        :param deadline_seconds: until the head of the answer is there.
        :param idle_seconds: longest silence afterwards; then the pieces raise ``TimeoutError``.
        :raises TimeoutError: see above.
        :raises ConnectionLost: the connection was refused or reset.
        """
        ...

    async def close(self) -> None: ...

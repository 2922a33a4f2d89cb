"""Requests and responses, independent of the HTTP version; the packages ``http1`` and ``http2`` implement them."""

from __future__ import annotations

import asyncio
import ssl
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence

from multidict import CIMultiDictProxy

Headers = Iterable[tuple[str, str]]
SINGLE_WRITE_BYTES = 1 << 20
"""Size up to which a complete response is written without waiting for the client between its pieces."""
BODILESS = frozenset([101, 204, 304])
"""Status codes of responses that have no body."""
_NOTHING: Mapping[str, str] = {}


class BodyTooLong(Exception):
    """The request body exceeds the limit."""


class MalformedBody(Exception):
    """The framing of the request body is invalid."""


class ResponseStream(ABC):
    """Body of a response that is written as it is produced; :meth:`end` completes it."""

    __slots__ = ()

    @abstractmethod
    async def write(self, data: bytes) -> None:
        """Write *data*, and wait while the client reads too slowly; short data is sent immediately as one TLS record.

        :raises ConnectionResetError: the client has disconnected, or does not read.
        """

    @abstractmethod
    def end(self) -> None:
        """Complete the response; no effect if the client has disconnected."""


class HttpRequest(ABC):
    """One request, and the functions to respond to it: exactly one of respond, start and upgrade is called.

    If its handler returns or raises before the response is complete, the client sees a closed connection or stream. The
    handler's task is cancelled when the client disconnects.
    """

    __slots__ = ("audit_id", "headers", "method", "remote", "response_headers", "target", "tls", "version")

    def __init__(
        self,
        method: str,
        target: str,
        version: tuple[int, int],
        headers: CIMultiDictProxy[str],
        *,
        remote: str | None,
        tls: ssl.SSLObject | None,
    ) -> None:
        self.method, self.target, self.version, self.headers = method, target, version, headers
        """*target* is the path with the query as sent; *version* is that of HTTP."""
        self.remote = remote
        """Address of the client; ``None`` for a Unix socket."""
        self.tls = tls
        """TLS connection, with the client's certificate."""
        self.audit_id = ""
        """Audit ID of the response; see :func:`~apiserver_stub.transport.response_writer.audit_id`."""
        self.response_headers: Mapping[str, str] = _NOTHING
        """Additional headers of the response, independent of its writer."""

    @property
    def path(self) -> str:
        """The target without the query."""
        return self.target.partition("?")[0]

    @property
    def content_length(self) -> int | None:
        """Declared length of the body, ``None`` if it is unknown or there is no body."""
        text = self.headers.get("Content-Length")
        return int(text) if text is not None else None

    @property
    @abstractmethod
    def has_body(self) -> bool:
        """True if a part of the body can still be read."""

    async def read_body(self, limit: int) -> bytes:
        """Return the body; a client that waits for permission to send it (``Expect``) receives that.

        :param limit: maximum length in bytes.
        :raises BodyTooLong: it is longer.
        :raises MalformedBody: its framing is invalid.
        """
        if (self.content_length or 0) > limit:
            raise BodyTooLong
        pieces, size = [], 0
        async for piece in self.body():
            size += len(piece)
            if size > limit:
                raise BodyTooLong
            pieces.append(piece)
        return b"".join(pieces)

    @abstractmethod
    def body(self) -> AsyncIterator[bytes]:
        """Yield the body in pieces, as they arrive; the client cannot send much more than is read.

        :raises MalformedBody: its framing is invalid.
        """

    @abstractmethod
    async def respond(self, status: int, headers: Headers, pieces: Sequence[bytes]) -> None:
        """Send a complete response; one that is short is sent as a single TLS record.

        :param pieces: the body, which is not sent in response to HEAD.
        :raises ConnectionResetError: the client has disconnected, or does not read.
        """

    @abstractmethod
    def start(self, status: int, headers: Headers, *, reason: str = "", may_stall: bool = False) -> ResponseStream:
        """Start a response whose body is written later; its headers may contain the length.

        :param reason: reason phrase, used by HTTP/1.1.
        :param may_stall: the client may stop reading for any time.
        :raises ConnectionResetError: the client has disconnected.
        """

    @abstractmethod
    def close_after_response(self) -> None:
        """Close the connection after the response, with HTTP/2 after all requests in progress (GOAWAY)."""

    @abstractmethod
    def upgrade(self, protocol: asyncio.BaseProtocol, headers: Headers | None = None) -> None:
        """Detach the connection from HTTP and pass it to *protocol*; it closes at the latest with the handler's end.

        :param headers: send a response 101 with these headers first; without them, *protocol* sends the response.
        :raises ConnectionResetError: the client has disconnected.
        :raises UpgradeUnsupported: the HTTP version does not support it.
        """


class UpgradeUnsupported(Exception):
    """The HTTP version of the request has no upgrades."""


Handler = Callable[[HttpRequest], Awaitable[None]]
"""Handler of requests.

:raises ConnectionError: the response cannot be completed.
"""

"""Requests and responses of HTTP/1.1 connections."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from http import HTTPStatus
from typing import Any, Protocol

from multidict import CIMultiDictProxy

from apiserver_stub.transport.backpressure import Backpressure
from apiserver_stub.transport.http import (
    BODILESS,
    SINGLE_WRITE_BYTES,
    BodyTooLong,
    Headers,
    HttpRequest,
    ResponseStream,
)
from apiserver_stub.transport.http1.body import RequestBody
from apiserver_stub.transport.http_date import http_date

_PIECE_BYTES = 256 << 10
"""Size of a write: the TLS layer applies backpressure only between writes."""
_CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"
_REASONS = {status.value: status.phrase for status in HTTPStatus}


class ClientConnection(Protocol):
    """Functions of the connection that its requests call."""

    address: str
    tls: Any
    transport: asyncio.Transport | None
    writes: Backpressure

    def upgrade(self, protocol: asyncio.BaseProtocol) -> Callable[[], None]:
        """Detach the connection from HTTP; the returned function passes received data to *protocol*."""


class Http1Request(HttpRequest):
    """A request, and its response on a connection that is not used otherwise until it is complete."""

    __slots__ = ("_connection", "body_buffer", "completed", "keep_alive", "started")

    def __init__(
        self,
        method: str,
        target: str,
        version: tuple[int, int],
        headers: CIMultiDictProxy[str],
        body: RequestBody,
        connection: ClientConnection,
        *,
        keep_alive: bool,
    ) -> None:
        super().__init__(method, target, version, headers, remote=connection.address or None, tls=connection.tls)
        self.body_buffer, self._connection = body, connection
        self.keep_alive = keep_alive
        self.started = self.completed = False

    # Request body

    @property
    def has_body(self) -> bool:
        return self.body_buffer.unread

    async def read_body(self, limit: int) -> bytes:
        body = self.body_buffer.take_all()  # It was mostly received with the head.
        if body is None:
            return await super().read_body(limit)
        if len(body) > limit:
            raise BodyTooLong
        return body

    async def body(self) -> AsyncIterator[bytes]:
        expects = self.headers.get("Expect", "").lower() == "100-continue"
        if expects and self.version >= (1, 1) and not self.body_buffer.complete:
            self._transport().write(_CONTINUE)
        while piece := await self.body_buffer.take():
            yield piece

    # Response

    async def respond(self, status: int, headers: Headers, pieces: Sequence[bytes]) -> None:
        transport = self._transport()
        size = sum(map(len, pieces))
        head = self._head(status, headers, None if status in BODILESS else size, dated=False)
        self.started = True
        if self.method == "HEAD" or status in BODILESS:
            pieces, size = (), 0
        if size <= SINGLE_WRITE_BYTES:
            transport.write(b"".join((head, *pieces)))
            if self._connection.writes.paused:
                await self.flush()
        else:
            transport.write(head)
            for piece in pieces:
                await self.write(piece)
        self.completed = True

    def start(self, status: int, headers: Headers, *, reason: str = "", may_stall: bool = False) -> ResponseStream:
        transport = self._transport()
        fields = list(headers)
        length = next((int(value) for name, value in fields if name.lower() == "content-length"), None)
        has_body = self.method != "HEAD" and status not in BODILESS
        chunked = has_body and length is None and self.version >= (1, 1)
        if chunked:
            fields.append(("Transfer-Encoding", "chunked"))
        elif has_body and length is None:
            self.keep_alive = False
        dated = any(name.lower() == "date" for name, _ in fields)
        transport.write(self._head(status, fields, None, dated=dated, reason=reason))
        self.started = True
        return _Stream(self, has_body=has_body, chunked=chunked, length=length, may_stall=may_stall)

    def close_after_response(self) -> None:
        self.keep_alive = False

    def upgrade(self, protocol: asyncio.BaseProtocol, headers: Headers | None = None) -> None:
        transport = self._transport()
        self.keep_alive = True  # which the connection's header does not contradict
        head = b"" if headers is None else self._head(101, headers, None, dated=False)
        self.keep_alive, self.started, self.completed = False, True, True
        pass_data = self._connection.upgrade(protocol)
        if head:
            transport.write(head)
        pass_data()

    def reject(self, status: int, text: str) -> None:
        """Respond with one line and close the connection; no effect if the client has disconnected."""
        self.keep_alive = False
        self.write_last(rejection(status, text, self.version[1]))
        self.started = self.completed = True

    async def write(self, data: bytes, *, may_stall: bool = False) -> None:
        """Write a part of the response, and wait while the connection's write buffer is full.

        :raises ConnectionResetError: the client has disconnected, or does not read; its connection was aborted.
        """
        if len(data) <= _PIECE_BYTES:
            self._transport().write(data)
            await self.flush(may_stall=may_stall)
            return
        view = memoryview(data)
        for start in range(0, len(data), _PIECE_BYTES):
            self._transport().write(view[start : start + _PIECE_BYTES])
            await self.flush(may_stall=may_stall)

    def write_last(self, data: bytes) -> None:
        """Write the end of the response; no effect if the client has disconnected."""
        transport = self._connection.transport
        if transport is not None and not transport.is_closing():
            transport.write(data)

    async def flush(self, *, may_stall: bool = False) -> None:
        """Wait while the connection's write buffer is full.

        :raises ConnectionResetError: the client has disconnected, or does not read; its connection was aborted.
        """
        writes = self._connection.writes
        if not writes.paused:
            return
        try:
            await writes.wait(may_stall=may_stall)
        except TimeoutError:
            if (transport := self._connection.transport) is not None:
                transport.abort()
            raise ConnectionResetError("the client does not read") from None

    def _transport(self) -> asyncio.Transport:
        transport = self._connection.transport
        if transport is None or transport.is_closing():
            raise ConnectionResetError("the client has disconnected")
        return transport

    def _head(self, status: int, headers: Headers, length: int | None, *, dated: bool, reason: str = "") -> bytes:
        """Return the status line and headers.

        :param dated: *headers* contain the date.
        :raises ValueError: a header contains a line break.
        """
        minor = self.version[1]
        lines = [f"HTTP/1.{minor} {status} {reason or _REASONS.get(status, '')}", *map(": ".join, headers)]
        if "\n" in (unseparated := "".join(lines)) or "\r" in unseparated:
            raise ValueError("a header of the response contains a line break")
        if length is not None:
            lines.append(f"Content-Length: {length}")
        if not dated:
            lines.append(f"Date: {http_date()}")
        if not self.keep_alive:
            lines.append("Connection: close")
        elif minor == 0:
            lines.append("Connection: keep-alive")
        lines += ("", "")
        return "\r\n".join(lines).encode("utf-8", "surrogateescape")


class _Stream(ResponseStream):
    """Body of a response, in chunks unless its length is known or the connection ends with it."""

    __slots__ = ("_chunked", "_has_body", "_http", "_left", "_may_stall")

    def __init__(
        self, http: Http1Request, *, has_body: bool, chunked: bool, length: int | None, may_stall: bool
    ) -> None:
        self._http, self._has_body, self._chunked, self._may_stall = http, has_body, chunked, may_stall
        self._left = length
        """Bytes of the declared length that are not written yet."""

    async def write(self, data: bytes) -> None:
        if not data or not self._has_body:
            return
        if self._chunked:
            data = b"%x\r\n%b\r\n" % (len(data), data)
        elif self._left is not None:
            data = data[: self._left]
            self._left -= len(data)
        await self._http.write(data, may_stall=self._may_stall)

    def end(self) -> None:
        http = self._http
        if self._has_body and self._left:
            return  # the connection closes, so that the client notices
        if self._chunked:
            http.write_last(b"0\r\n\r\n")
        http.completed = True


def rejection(status: int, text: str, minor: int = 0) -> bytes:
    """Return a response of one line, after which the connection closes; *minor* is the version of HTTP/1."""
    body = text.encode(errors="replace")
    head = (
        f"HTTP/1.{minor} {status} {_REASONS[status]}\r\nContent-Type: text/plain; charset=utf-8\r\n"
        f"Content-Length: {len(body)}\r\nDate: {http_date()}\r\nConnection: close\r\n\r\n"
    )
    return head.encode() + body

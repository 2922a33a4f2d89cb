"""Requests and responses of HTTP/2 streams."""

from __future__ import annotations

import asyncio
import ssl
from collections import deque
from collections.abc import AsyncIterator, Sequence
from typing import Protocol

from apiserver_stub.transport.backpressure import Backpressure
from apiserver_stub.transport.http import (
    BODILESS,
    Headers,
    HttpRequest,
    ResponseStream,
    UpgradeUnsupported,
)
from apiserver_stub.transport.http2.header_blocks import Fields, RequestHead, response_fields

HIGH_WATER_BYTES, LOW_WATER_BYTES = 64 << 10, 16 << 10
"""Amounts of unsent data at which the handler's writing is paused and resumed."""
_VERSION = (2, 0)


class Frames(Protocol):
    """Functions of the connection that its streams call."""

    def send_head(self, stream: Http2Request, fields: Fields) -> None:
        """Queue the head of a response; :meth:`flush` sends it."""

    def flush(self, stream: Http2Request) -> None:
        """Send as much of the response as flow control allows."""

    def flush_soon(self, stream: Http2Request) -> None:
        """Send it together with data of other streams that are written in this iteration of the event loop."""

    def acknowledge(self, stream: Http2Request, size: int) -> None:
        """Allow the client to send *size* more bytes."""

    def leave(self) -> None:
        """Stop accepting streams."""

    def reset(self, stream: Http2Request) -> None:
        """Reset the stream immediately."""


class Http2Request(HttpRequest):
    """A stream with one request and its response.

    The client's flow-control window limits the data that the handler has not read; unsent data above
    :data:`HIGH_WATER_BYTES` pauses the handler's writing.
    """

    __slots__ = (
        "_available",
        "_frames",
        "_leave",
        "_received",
        "_writes",
        "cut_off",
        "ended",
        "lost",
        "number",
        "requested",
        "responded",
        "started",
        "task",
        "unsent",
    )

    def __init__(
        self,
        frames: Frames,
        number: int,
        head: RequestHead,
        *,
        remote: str,
        tls: ssl.SSLObject | None,
        requested: bool,
        leave: bool = False,
    ) -> None:
        """Create the request of stream *number*.

        :param requested: the request has no body.
        :param leave: the client is sent GOAWAY with the response.
        """
        super().__init__(head.method, head.target, _VERSION, head.headers, remote=remote, tls=tls)
        self.number = number
        self.task: asyncio.Task[None] | None = None
        self.unsent = bytearray()
        self.started = False
        """The head of the response was written."""
        self.responded = False
        """The complete response was written; it is sent or in :attr:`unsent`."""
        self.requested = requested
        """The complete request was received."""
        self.ended = False
        """The complete response was sent."""
        self.lost = False
        """The stream is closed: nothing can be read or written."""
        self.cut_off: asyncio.TimerHandle | None = None
        """Resets the stream if the client does not read the rest of a complete response."""
        self._frames, self._leave = frames, leave
        self._received: deque[tuple[bytes, int]] = deque()
        """Pieces of the body that the handler has not read, each with its size in the flow-control window."""
        self._available: asyncio.Future[None] | None = None
        self._writes = Backpressure()

    # The client's side

    def receive(self, data: bytes, size: int) -> None:
        """Keep a piece of the body until the handler reads it; it occupies *size* bytes of the window."""
        if self.lost:
            self._frames.acknowledge(self, size)
            return
        self._received.append((data, size))
        self._wake()

    def receive_end(self) -> None:
        """Record the end of the body."""
        self.requested = True
        self._wake()

    def sent_some(self) -> None:
        """Resume the handler's writing if little data is unsent."""
        if self._writes.paused and not self.lost and len(self.unsent) <= LOW_WATER_BYTES:
            self._writes.resume()

    def lose(self) -> None:
        """Cancel the handler, because the stream is closed."""
        self.lost = True
        self._writes.lose()
        self.discard_received()
        if self.task is not None:
            self.task.cancel()

    def discard_received(self) -> None:
        """Drop unread data and return it to the connection's window, which all streams share."""
        while self._received:
            self._frames.acknowledge(self, self._received.popleft()[1])

    def _wake(self) -> None:
        if self._available is not None and not self._available.done():
            self._available.set_result(None)

    # The handler's side

    @property
    def has_body(self) -> bool:
        return bool(self._received) or not self.requested

    async def body(self) -> AsyncIterator[bytes]:
        if not self.requested and not self._received and self.headers.get("Expect", "").lower() == "100-continue":
            self._frames.send_head(self, [(b":status", b"100")])
            self._frames.flush(self)
        while True:
            while self._received:
                data, size = self._received.popleft()
                self._frames.acknowledge(self, size)
                if data:
                    yield data
            if self.requested:
                return
            self._check()
            self._available = asyncio.get_running_loop().create_future()
            await self._available

    async def respond(self, status: int, headers: Headers, pieces: Sequence[bytes]) -> None:
        size = sum(map(len, pieces))
        self._send_head(response_fields(status, headers, size))
        if self.method != "HEAD" and status not in BODILESS:
            for piece in pieces:
                if size <= HIGH_WATER_BYTES:
                    self.unsent += piece
                    continue
                for start in range(0, len(piece), HIGH_WATER_BYTES):
                    await self.send(piece[start : start + HIGH_WATER_BYTES], may_stall=False)
        self.finish()

    def start(self, status: int, headers: Headers, *, reason: str = "", may_stall: bool = False) -> ResponseStream:
        fields = list(headers)
        length = next((int(value) for name, value in fields if name.lower() == "content-length"), None)
        self._send_head(response_fields(status, fields, None))
        self._frames.flush(self)
        has_body = self.method != "HEAD" and status not in BODILESS
        return _Stream(self, has_body=has_body, length=length, may_stall=may_stall)

    def close_after_response(self) -> None:
        self._leave = True

    def upgrade(self, protocol: asyncio.BaseProtocol, headers: Headers | None = None) -> None:
        raise UpgradeUnsupported

    async def send(self, data: bytes, *, may_stall: bool) -> None:
        """Send a part of the response, and wait while much of it is unsent.

        :raises ConnectionResetError: the client has disconnected, or does not read; the stream was reset.
        """
        self._check()
        self.unsent += data
        self._frames.flush_soon(self)
        if len(self.unsent) <= HIGH_WATER_BYTES:
            return
        self._writes.pause()
        try:
            await self._writes.wait(may_stall=may_stall)
        except TimeoutError:
            self._frames.reset(self)
            raise ConnectionResetError("the client does not read") from None

    def finish(self) -> None:
        """Complete the response."""
        if not self.lost:
            self.responded = True
            self._frames.flush(self)

    def _send_head(self, fields: Fields) -> None:
        self._check()
        self._frames.send_head(self, fields)
        self.started = True
        if self._leave:
            self._frames.leave()

    def _check(self) -> None:
        if self.lost:
            raise ConnectionResetError("the client has closed the stream")


class _Stream(ResponseStream):
    """Body of a response."""

    __slots__ = ("_has_body", "_http", "_left", "_may_stall")

    def __init__(self, http: Http2Request, *, has_body: bool, length: int | None, may_stall: bool) -> None:
        self._http, self._has_body, self._may_stall = http, has_body, may_stall
        self._left = length

    async def write(self, data: bytes) -> None:
        if not data or not self._has_body:
            return
        if self._left is not None:
            data = data[: self._left]
            self._left -= len(data)
        await self._http.send(data, may_stall=self._may_stall)

    def end(self) -> None:
        if not (self._has_body and self._left):  # an incomplete stream is reset
            self._http.finish()

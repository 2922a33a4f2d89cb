"""Transport of one HTTP/2 stream: an HTTP/1.1 connection with one request and its response."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Any, Protocol

from aiohttp.base_protocol import BaseProtocol
from aiohttp.http import HttpResponseParser
from aiohttp.http_exceptions import HttpProcessingError

from apiserver_stub.transport.http2.header_blocks import Fields, response_fields
from apiserver_stub.transport.http2.negotiation import GOAWAY

HIGH_WATER_BYTES, LOW_WATER_BYTES = 64 << 10, 16 << 10
"""Amounts of unsent data at which the handler's writing is paused and resumed."""
_MAX_HEADERS, _MAX_FIELD_BYTES = 512, 64 << 10
_NO_LIMIT = 1 << 30
"""The reader of a response is emptied after every write."""


class Frames(Protocol):
    """Functions of the connection that its streams call."""

    def send_head(self, stream: StreamTransport, fields: Fields) -> None: ...

    def flush(self, stream: StreamTransport) -> None:
        """Send as much of the response as flow control allows."""

    def acknowledge(self, stream: StreamTransport, size: int) -> None:
        """Allow the client to send *size* more bytes."""

    def leave(self) -> None:
        """Accept no more streams."""

    def closed(self, stream: StreamTransport) -> None:
        """Handle the end of the handler's writes."""

    def reset(self, stream: StreamTransport) -> None:
        """Reset the stream immediately."""

    def get_extra_info(self, name: str, default: Any = None) -> Any: ...


class StreamTransport(asyncio.Transport):
    """Passes the request to the handler as HTTP/1.1 and parses its HTTP/1.1 response.

    The client's flow-control window limits the data that the handler has not read; unsent data above
    :data:`HIGH_WATER_BYTES` pauses the handler's writing.
    """

    def __init__(self, frames: Frames, number: int, *, head_only: bool, chunked: bool, leave: bool = False) -> None:
        """Create the transport of stream *number*.

        :param head_only: the response has no body, whatever its headers specify.
        :param chunked: the request's body is passed to the handler with chunked encoding.
        :param leave: the client is sent GOAWAY with the response.
        """
        super().__init__()
        loop = asyncio.get_running_loop()
        self.number = number
        self.unsent = bytearray()
        self.responded = False
        """The complete response was written; it is sent or in :attr:`unsent`."""
        self.requested = False
        """The complete request was received."""
        self.ended = False
        """The complete response was sent."""
        self.cut_off: asyncio.TimerHandle | None = None
        """Resets the stream if the client does not read the rest of a complete response."""
        self._frames, self._loop, self._leave = frames, loop, leave
        self._head_only, self._chunked = head_only, chunked
        self._handler: asyncio.Protocol | None = None
        self._response: Any = None
        self._received: deque[tuple[bytes, int]] = deque()
        self._closing = self._reading_paused = self._writing_paused = False
        self._parser: Any = HttpResponseParser(
            BaseProtocol(loop),
            loop,
            _NO_LIMIT,
            max_line_size=_MAX_FIELD_BYTES,
            max_headers=_MAX_HEADERS,
            max_field_size=_MAX_FIELD_BYTES,
            response_with_body=not head_only,
            read_until_eof=True,
            auto_decompress=False,
        )

    # The client's side

    def begin(self, handler: asyncio.Protocol, lines: bytes) -> None:
        """Pass the request line and headers to *handler*."""
        self._handler = handler
        handler.connection_made(self)
        handler.data_received(lines)

    def receive(self, data: bytes, size: int) -> None:
        """Pass a piece of the body when the handler reads; it consumes *size* bytes of the flow-control window."""
        framed = b"%x\r\n%b\r\n" % (len(data), data) if self._chunked and data else data
        self._take(framed, size)

    def receive_end(self) -> None:
        """Pass the end of the body."""
        self.requested = True
        if self._chunked:
            self._take(b"0\r\n\r\n", 0)

    def resume_handler(self) -> None:
        """Resume the handler's writing if little data is unsent."""
        if self._writing_paused and len(self.unsent) <= LOW_WATER_BYTES and self._handler is not None:
            self._writing_paused = False
            self._handler.resume_writing()

    def lose(self, problem: Exception | None) -> None:
        """Notify the handler that the stream is closed."""
        self._closing = True
        handler, self._handler = self._handler, None
        self._acknowledge_received()
        if handler is not None:
            handler.connection_lost(problem)

    def _take(self, data: bytes, size: int) -> None:
        if self._closing:
            self._frames.acknowledge(self, size)
        elif self._reading_paused:
            self._received.append((data, size))
        else:
            self._pass(data, size)

    def _pass(self, data: bytes, size: int) -> None:
        if self._handler is not None and data:
            self._handler.data_received(data)
        self._frames.acknowledge(self, size)

    def _acknowledge_received(self) -> None:
        """Drop unread data and return it to the connection's window, which all streams share."""
        while self._received:
            self._frames.acknowledge(self, self._received.popleft()[1])

    # The handler's side

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        """Return extra info of the connection, except its socket, whose options belong to all streams."""
        if name == GOAWAY:
            return self._send_goaway
        return default if name == "socket" else self._frames.get_extra_info(name, default)

    def is_closing(self) -> bool:
        return self._closing

    def is_reading(self) -> bool:
        return not self._reading_paused and not self._closing

    def pause_reading(self) -> None:
        self._reading_paused = True

    def resume_reading(self) -> None:
        self._reading_paused = False
        while self._received and not self._reading_paused:
            self._pass(*self._received.popleft())

    def get_write_buffer_size(self) -> int:
        return len(self.unsent)

    def get_write_buffer_limits(self) -> tuple[int, int]:
        return LOW_WATER_BYTES, HIGH_WATER_BYTES

    def write(self, data: Any) -> None:
        if self._closing or self.responded:
            return
        data = bytes(data)
        if self._head_only:  # some handlers write the body of a response to HEAD
            data = data[: data.find(b"\r\n\r\n") + 4]
        for head, payload in self._parser.feed_data(data)[0]:
            fields, closes = response_fields(head.code, head.raw_headers)
            if head.code >= 200:
                self._response = payload
            self._frames.send_head(self, fields)
            if self._response is not None and (closes or self._leave):
                self._frames.leave()
        self._send_written()
        if len(self.unsent) > HIGH_WATER_BYTES and not self._writing_paused and self._handler is not None:
            self._writing_paused = True
            self._handler.pause_writing()

    def writelines(self, list_of_data: Any) -> None:
        self.write(b"".join(list_of_data))

    def can_write_eof(self) -> bool:
        return False

    def close(self) -> None:
        """Close the stream after the written data is sent."""
        if self._closing:
            return
        if self._response is not None and not self.responded:
            try:
                self._parser.feed_eof()
                self._send_written()
            except HttpProcessingError:
                pass  # the response is incomplete: the stream is reset
        self._closing = True
        self._acknowledge_received()
        self._frames.closed(self)
        self._loop.call_soon(self.lose, None)

    def abort(self) -> None:
        """Reset the stream immediately."""
        self._closing = True
        self.unsent.clear()
        self._frames.reset(self)
        self._loop.call_soon(self.lose, None)

    def _send_written(self) -> None:
        if self._response is not None:
            self.unsent += self._response.read_nowait()
            self.responded = self._response.is_eof()
            if self.responded:
                self._end_handler()
        self._frames.flush(self)

    def _send_goaway(self) -> None:
        self._leave = True

    def _end_handler(self) -> None:
        """Close the handler when it is done, since no further request follows."""
        close = getattr(self._handler, "close", None)
        if close is not None:
            close()

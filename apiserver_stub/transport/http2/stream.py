"""One stream, as the handler of HTTP/1.1 sees it: a connection that carries one request and its answer."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Any, Protocol

from aiohttp.base_protocol import BaseProtocol
from aiohttp.http import HttpResponseParser
from aiohttp.http_exceptions import HttpProcessingError

from apiserver_stub.transport.http2.header_blocks import Fields, answer_fields
from apiserver_stub.transport.http2.negotiation import FAREWELL

HIGH_WATER_BYTES, LOW_WATER_BYTES = 64 << 10, 16 << 10
"""With how much unsent the handler is held up, and with how little it goes on."""
_MAX_HEADERS, _MAX_FIELD_BYTES = 512, 64 << 10
_NO_LIMIT = 1 << 30
"""The reader of an answer is emptied after every write."""


class Frames(Protocol):
    """What a stream needs of its connection."""

    def send_head(self, stream: StreamTransport, fields: Fields) -> None: ...

    def flush(self, stream: StreamTransport) -> None:
        """Send of the answer what the client takes now."""

    def acknowledge(self, stream: StreamTransport, size: int) -> None:
        """Let the client send *size* bytes more."""

    def leave(self) -> None:
        """Take no more streams."""

    def closed(self, stream: StreamTransport) -> None:
        """The handler writes no more."""

    def reset(self, stream: StreamTransport) -> None:
        """End the stream at once."""

    def get_extra_info(self, name: str, default: Any = None) -> Any: ...


class StreamTransport(asyncio.Transport):
    """Gives the handler the request as bytes of HTTP/1.1 and takes the answer as such.

    What the handler does not read stays within the window that the client has; what the client does not read holds the
    handler up.
    """

    def __init__(self, frames: Frames, number: int, *, head_only: bool, chunked: bool, leave: bool = False) -> None:
        """Make the transport of stream *number*.

        :param head_only: the answer has no body, whatever its head says of one.
        :param chunked: the request's body goes to the handler in chunks.
        :param leave: the client is told with the answer to go elsewhere.
        """
        super().__init__()
        loop = asyncio.get_running_loop()
        self.number = number
        self.unsent = bytearray()
        self.answered = False
        """All of the answer was written, and is sent or stands in :attr:`unsent`."""
        self.requested = False
        """All of the request has come."""
        self.ended = False
        """All of the answer was sent."""
        self.cut_off: asyncio.TimerHandle | None = None
        """Ends the stream when the client does not take the rest of an answer whose handler is done."""
        self._frames, self._loop, self._leave = frames, loop, leave
        self._head_only, self._chunked = head_only, chunked
        self._handler: asyncio.Protocol | None = None
        self._answer: Any = None
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
        """Hand the head of the request to *handler*."""
        self._handler = handler
        handler.connection_made(self)
        handler.data_received(lines)

    def receive(self, data: bytes, size: int) -> None:
        """Hand over a piece of the body, now or when it is asked for; it counts as *size* bytes in the window."""
        framed = b"%x\r\n%b\r\n" % (len(data), data) if self._chunked and data else data
        self._take(framed, size)

    def receive_end(self) -> None:
        """Hand over that the body is complete."""
        self.requested = True
        if self._chunked:
            self._take(b"0\r\n\r\n", 0)

    def relieve(self) -> None:
        """Let the handler go on when little is unsent."""
        if self._writing_paused and len(self.unsent) <= LOW_WATER_BYTES and self._handler is not None:
            self._writing_paused = False
            self._handler.resume_writing()

    def lose(self, problem: Exception | None) -> None:
        """Tell the handler that the stream is over."""
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
            self._hand_over(data, size)

    def _hand_over(self, data: bytes, size: int) -> None:
        if self._handler is not None and data:
            self._handler.data_received(data)
        self._frames.acknowledge(self, size)

    def _acknowledge_received(self) -> None:
        """Forget what nobody will read; the connection's window is there for the other streams."""
        while self._received:
            self._frames.acknowledge(self, self._received.popleft()[1])

    # The handler's side

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        """Return what is known of the connection, whose socket is not the handler's to set."""
        if name == FAREWELL:
            return self._say_farewell
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
            self._hand_over(*self._received.popleft())

    def get_write_buffer_size(self) -> int:
        return len(self.unsent)

    def get_write_buffer_limits(self) -> tuple[int, int]:
        return LOW_WATER_BYTES, HIGH_WATER_BYTES

    def write(self, data: Any) -> None:
        if self._closing or self.answered:
            return
        data = bytes(data)
        if self._head_only:  # some write what there would be, and leave it to others to cut it off
            data = data[: data.find(b"\r\n\r\n") + 4]
        for head, payload in self._parser.feed_data(data)[0]:
            fields, closes = answer_fields(head.code, head.raw_headers)
            if head.code >= 200:
                self._answer = payload
            self._frames.send_head(self, fields)
            if self._answer is not None and (closes or self._leave):
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
        """End the stream when what was written is sent."""
        if self._closing:
            return
        if self._answer is not None and not self.answered:
            try:
                self._parser.feed_eof()
                self._send_written()
            except HttpProcessingError:
                pass  # cut off in the middle: the client is told by a reset
        self._closing = True
        self._acknowledge_received()
        self._frames.closed(self)
        self._loop.call_soon(self.lose, None)

    def abort(self) -> None:
        """End the stream at once."""
        self._closing = True
        self.unsent.clear()
        self._frames.reset(self)
        self._loop.call_soon(self.lose, None)

    def _send_written(self) -> None:
        if self._answer is not None:
            self.unsent += self._answer.read_nowait()
            self.answered = self._answer.is_eof()
            if self.answered:
                self._end_handler()
        self._frames.flush(self)

    def _say_farewell(self) -> None:
        self._leave = True

    def _end_handler(self) -> None:
        """Let the handler close when it is done, instead of waiting for another request."""
        close = getattr(self._handler, "close", None)
        if close is not None:
            close()

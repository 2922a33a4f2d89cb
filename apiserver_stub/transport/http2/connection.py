"""A connection of HTTP/2: frames in and out, its streams, and its end."""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import Callable
from typing import Any, cast

from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.errors import ErrorCodes
from h2.events import (
    ConnectionTerminated,
    DataReceived,
    Event,
    RemoteSettingsChanged,
    RequestReceived,
    StreamEnded,
    StreamReset,
    WindowUpdated,
)
from h2.exceptions import ProtocolError, StreamClosedError
from h2.settings import SettingCodes, Settings
from hyperframe.frame import GoAwayFrame

from apiserver_stub.transport.http2.header_blocks import BadHeadError, Fields, method_of, request_lines
from apiserver_stub.transport.http2.negotiation import Terms
from apiserver_stub.transport.http2.stream import StreamTransport

_WINDOW_BYTES = 1 << 20
"""What a connection takes before somebody reads it; a stream takes the protocol's 64 KiB of that."""
_DEFAULT_WINDOW_BYTES = (1 << 16) - 1
_MAX_HEAD_BYTES = 1 << 20
_STALLED_SECONDS = 60.0
"""Who reads nothing for so long is cut off."""
_FAREWELL_SECONDS = 1.0
"""How long a client has to see that the connection ends, before it does."""
_MOST_RESETS, _RESETS_A_SECOND = 200, 10.0
"""Who begins requests only to reset them is cut off: so many at once, and so many a second in the long run."""


class _Settings(Settings):
    """Those that are told; streams beyond the limit are refused one by one, where the library would hang up."""

    @property
    def max_concurrent_streams(self) -> int:
        return 1 << 31

    @max_concurrent_streams.setter
    def max_concurrent_streams(self, value: int) -> None:
        self[SettingCodes.MAX_CONCURRENT_STREAMS] = value


class Http2Connection(asyncio.Protocol):
    """Serves one connection.

    :param serve: makes the handler of a stream.
    :param gone: called once, when the connection is no more.
    :param complain: told what the client did wrong.
    """

    def __init__(
        self,
        terms: Terms,
        address: str,
        serve: Callable[[], asyncio.Protocol],
        gone: Callable[[], None],
        complain: Callable[[object], None],
        *,
        idle_seconds: float,
    ) -> None:
        self.address = address
        self.unused_since = 0.0
        """The moment of the last answer, or of the beginning, plus the time that an idle connection stays."""
        self._terms, self._idle_seconds = terms, idle_seconds
        self._serve, self._gone, self._complain = serve, gone, complain
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._streams: dict[int, StreamTransport] = {}
        self._blocked: dict[int, StreamTransport] = {}
        """Those with something unsent, the one that waits longest first."""
        self._last: int | None = None
        """The last stream that is served, once no more are taken."""
        self._full = False
        """The connection takes nothing now."""
        self._timer: asyncio.TimerHandle | None = None
        self._stalled: asyncio.TimerHandle | None = None
        self._resets, self._reset_at = 0.0, 0.0
        self._h2 = H2Connection(H2Configuration(client_side=False, header_encoding=None))
        given = {
            SettingCodes.MAX_CONCURRENT_STREAMS: terms.max_streams,
            SettingCodes.MAX_HEADER_LIST_SIZE: _MAX_HEAD_BYTES,
        }
        self._h2.local_settings = _Settings(client=False, initial_values=given)
        self._h2.decoder.max_header_list_size = _MAX_HEAD_BYTES

    # Its life

    @property
    def idle(self) -> bool:
        """Whether no request is under way."""
        return not self._streams

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._h2.initiate_connection()
        self._h2.increment_flow_control_window(_WINDOW_BYTES - _DEFAULT_WINDOW_BYTES)
        self._write()
        self._used()
        self._timer = self._loop.call_at(self.unused_since, self._look_whether_idle)

    def connection_lost(self, exc: BaseException | None) -> None:
        self._transport = None
        for timer in (self._timer, self._stalled):
            if timer is not None:
                timer.cancel()
        problem = exc if isinstance(exc, Exception) else ConnectionResetError("Connection lost")
        self._lose_streams(problem)
        self._gone()

    def leave(self) -> None:
        """Tell the client to go elsewhere, serve what is under way, then hang up."""
        if self._last is not None or self._transport is None:
            return
        self._last = self._h2.highest_inbound_stream_id
        self._write()
        # The library hangs up with a frame of its own; this one leaves streams as they are.
        self._transport.write(GoAwayFrame(0, last_stream_id=self._last).serialize())
        self._end_if_done()

    def force_close(self) -> None:
        """Hang up, whatever is under way."""
        if self._transport is not None:
            self._transport.close()
        self._lose_streams(ConnectionResetError("Connection lost"))

    def _used(self) -> None:
        self.unused_since = self._loop.time() + self._idle_seconds

    def _look_whether_idle(self) -> None:
        if self._streams:
            self._used()
        if self._loop.time() >= self.unused_since:
            self.leave()
        else:
            self._timer = self._loop.call_at(self.unused_since, self._look_whether_idle)

    def _end_if_done(self) -> None:
        if self._last is not None and not self._streams and self._transport is not None:
            if self._timer is not None:
                self._timer.cancel()
            self._timer = self._loop.call_later(_FAREWELL_SECONDS, self.force_close)

    def _hang_up(self, problem: object) -> None:
        """End the connection for what the client did."""
        self._complain(problem)
        self._write()
        self.force_close()

    def _lose_streams(self, problem: Exception) -> None:
        for stream in list(self._streams.values()):
            self._forget(stream)
            stream.lose(problem)

    # From the client

    def data_received(self, data: bytes) -> None:
        try:
            for event in self._h2.receive_data(data):
                self._act(event)
                if self._transport is None or self._transport.is_closing():
                    return
        except ProtocolError as error:
            self._hang_up(error)
        else:
            self._write()

    def _act(self, event: Event) -> None:
        match event:
            case RequestReceived():
                self._begin(event.stream_id, event.headers, body=event.stream_ended is None)
            case DataReceived(stream_id=number) if number in self._streams:
                self._streams[number].receive(event.data, event.flow_controlled_length)
            case DataReceived():
                self._h2.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
            case StreamEnded(stream_id=number) if number in self._streams:
                self._streams[number].receive_end()
            case StreamReset():
                self._lost(event.stream_id)
            case WindowUpdated(stream_id=number) if number:
                if number in self._blocked:
                    self._send_some(self._blocked[number])
            case WindowUpdated() | RemoteSettingsChanged():
                self._send_blocked()
            case ConnectionTerminated():
                self.force_close()

    def _begin(self, number: int, fields: Any, *, body: bool) -> None:
        if self._last is not None:
            self._h2.reset_stream(number, ErrorCodes.REFUSED_STREAM)
            return
        if self._takes_no_more():
            self._h2.reset_stream(number, ErrorCodes.REFUSED_STREAM)
            self._count_reset()
            return
        method = method_of(fields)
        if method == b"CONNECT":  # what upgrades a connection takes one of HTTP/1.1
            self._h2.send_headers(number, [(b":status", b"405"), (b"content-length", b"0")], end_stream=True)
            if body:
                self._h2.reset_stream(number, ErrorCodes.NO_ERROR)
            return
        try:
            lines, chunked = request_lines(fields, body=body)
        except BadHeadError as error:
            self._complain(error)
            self._h2.reset_stream(number, ErrorCodes.PROTOCOL_ERROR)
            return
        leave = random.random() < self._terms.goaway_chance  # noqa: S311 - spreads load, keeps no secret
        stream = StreamTransport(self, number, head_only=method == b"HEAD", chunked=chunked, leave=leave)
        self._streams[number] = stream
        stream.begin(self._serve(), lines)

    def _takes_no_more(self) -> bool:
        """Return whether there are as many streams as were told.

        One counts until its answer is sent: then the client may begin another, although the handler is still there for
        a moment. That moment has its bound too.
        """
        count, most = len(self._streams), self._terms.max_streams
        if count < most:
            return False
        over = sum(stream.ended and stream.requested for stream in self._streams.values())
        return count - over >= most or count >= 2 * most

    def _lost(self, number: int) -> None:
        stream = self._streams.get(number)
        if stream is not None:
            self._forget(stream)
            stream.lose(ConnectionResetError("The client reset the stream"))
        self._count_reset()

    def _count_reset(self) -> None:
        now = self._loop.time()
        self._resets = max(0.0, self._resets - (now - self._reset_at) * _RESETS_A_SECOND) + 1
        self._reset_at = now
        if self._resets > _MOST_RESETS:
            self._h2.close_connection(ErrorCodes.ENHANCE_YOUR_CALM)
            self._hang_up("too many streams were reset")

    # To the client: what streams ask for

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return default if self._transport is None else self._transport.get_extra_info(name, default)

    def send_head(self, stream: StreamTransport, fields: Fields) -> None:
        if stream.number in self._streams:
            self._h2.send_headers(stream.number, fields)

    def flush(self, stream: StreamTransport) -> None:
        if stream.number in self._streams:
            self._send_some(stream)
            self._write()

    def acknowledge(self, stream: StreamTransport, size: int) -> None:
        if size and self._transport is not None:
            self._h2.acknowledge_received_data(size, stream.number)
            self._write()

    def closed(self, stream: StreamTransport) -> None:
        if stream.number not in self._streams:
            return
        if not stream.answered:
            self._cut(stream, ErrorCodes.INTERNAL_ERROR)
        elif not stream.ended:
            stream.cut_off = self._loop.call_later(_STALLED_SECONDS, self._cut, stream, ErrorCodes.CANCEL)
        elif not stream.requested:
            self._cut(stream, ErrorCodes.NO_ERROR)  # the answer stands; what else there is of the request, nobody reads
        else:
            self._forget(stream)

    def reset(self, stream: StreamTransport) -> None:
        self._cut(stream, ErrorCodes.CANCEL)

    def _cut(self, stream: StreamTransport, code: ErrorCodes) -> None:
        if stream.number not in self._streams:
            return
        with contextlib.suppress(StreamClosedError):
            self._h2.reset_stream(stream.number, code)
        self._write()
        self._forget(stream)

    def _forget(self, stream: StreamTransport) -> None:
        self._blocked.pop(stream.number, None)
        if stream.cut_off is not None:
            stream.cut_off.cancel()
        if self._streams.pop(stream.number, None) is not None:
            self._used()
            self._end_if_done()

    # To the client: bytes

    def pause_writing(self) -> None:
        """Take nothing either from who does not read: whatever comes may want an answer."""
        self._full = True
        self._stalled = self._loop.call_later(_STALLED_SECONDS, self._abort)
        if self._transport is not None:
            self._transport.pause_reading()

    def resume_writing(self) -> None:
        self._full = False
        if self._stalled is not None:
            self._stalled.cancel()
        if self._transport is not None:
            self._transport.resume_reading()
        self._send_blocked()
        self._write()

    def _abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    def _send_blocked(self) -> None:
        for stream in list(self._blocked.values()):
            if self._full:
                return
            self._send_some(stream)
            self._write()

    def _send_some(self, stream: StreamTransport) -> None:
        """Send of an answer what fits the windows; who has more to send goes to the end of the line."""
        h2, number, unsent = self._h2, stream.number, stream.unsent
        self._blocked.pop(number, None)
        while unsent and not self._full:
            size = min(len(unsent), h2.local_flow_control_window(number), h2.max_outbound_frame_size)
            if size <= 0:
                break
            piece = bytes(unsent[:size])
            del unsent[:size]
            stream.ended = stream.answered and not unsent
            h2.send_data(number, piece, end_stream=stream.ended)
        if unsent:
            self._blocked[number] = stream
        elif stream.answered and not stream.ended:
            stream.ended = True
            h2.end_stream(number)
        stream.relieve()
        if stream.ended and stream.is_closing():
            self.closed(stream)

    def _write(self) -> None:
        data = self._h2.data_to_send()
        if data and self._transport is not None:
            self._transport.write(data)

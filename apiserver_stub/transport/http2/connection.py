"""HTTP/2 connection: frames, streams and shutdown."""

from __future__ import annotations

import asyncio
import contextlib
import logging
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
    PingReceived,
    PriorityUpdated,
    RemoteSettingsChanged,
    RequestReceived,
    StreamEnded,
    StreamReset,
    UnknownFrameReceived,
    WindowUpdated,
)
from h2.exceptions import ProtocolError, StreamClosedError
from h2.settings import SettingCodes, Settings
from hyperframe.frame import GoAwayFrame

from apiserver_stub.transport.backpressure import STALLED_SECONDS
from apiserver_stub.transport.http import Handler
from apiserver_stub.transport.http2.header_blocks import BadHeadError, Fields, method_of, request_head
from apiserver_stub.transport.http2.negotiation import Terms
from apiserver_stub.transport.http2.stream import Http2Request

_log = logging.getLogger(__name__)

_WINDOW_BYTES = 1 << 20
"""Flow-control window of a connection; a stream has the protocol's default of 64 KiB."""
_DEFAULT_WINDOW_BYTES = (1 << 16) - 1
_MAX_HEAD_BYTES = 1 << 20
_BATCH_BYTES = 16 << 10
"""Amount of data, the maximum of a TLS record, from which events are not kept for those of other streams."""
_FAREWELL_SECONDS = 1.0
"""Time between GOAWAY and closing the connection."""
_MOST_RESETS, _RESETS_A_SECOND = 200, 10.0
"""Burst and rate of stream resets above which a client is disconnected (rapid reset attack)."""
_MOST_EMPTY_FRAMES, _EMPTY_FRAMES_A_SECOND = 2000, 100.0
"""Burst and rate of frames without data above which a client is disconnected (flood of pings, settings, empty data)."""


class _Meter:
    """Count of frames that decreases with time."""

    __slots__ = ("_at", "_count", "_most", "_per_second")

    def __init__(self, most: int, per_second: float) -> None:
        self._most, self._per_second = most, per_second
        self._count = self._at = 0.0

    def is_exceeded(self, now: float) -> bool:
        """Count a frame, and return whether the client sends too many."""
        self._count = max(0.0, self._count - (now - self._at) * self._per_second) + 1
        self._at = now
        return self._count > self._most


class _Settings(Settings):
    """Advertised settings; excess streams are rejected individually, where ``h2`` would close the connection."""

    @property
    def max_concurrent_streams(self) -> int:
        return 1 << 31

    @max_concurrent_streams.setter
    def max_concurrent_streams(self, value: int) -> None:
        self[SettingCodes.MAX_CONCURRENT_STREAMS] = value


class Http2Connection(asyncio.Protocol):
    """Serves one connection.

    :param handler: handles the request of each stream.
    :param closed: called once, when the connection is closed.
    :param log_error: logs a protocol error of the client.
    """

    def __init__(
        self,
        terms: Terms,
        address: str,
        handler: Handler,
        closed: Callable[[], None],
        log_error: Callable[[object], None],
        *,
        idle_seconds: float,
    ) -> None:
        self.address = address
        self.unused_since = 0.0
        """Loop time of the last response, at first of the start."""
        self._terms, self._idle_seconds = terms, idle_seconds
        self._handler, self._closed, self._log_error = handler, closed, log_error
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._tls: Any = None
        self.tasks: set[asyncio.Task[None]] = set()
        """Handlers in progress."""
        self._streams: dict[int, Http2Request] = {}
        self._blocked: dict[int, Http2Request] = {}
        """Streams with unsent data, the longest waiting first."""
        self._last: int | None = None
        """The last stream that is served, after GOAWAY."""
        self._full = False
        """The transport's write buffer is full."""
        self._queued_bytes = 0
        """Data of responses that is not yet passed to the transport."""
        self._writing: asyncio.Handle | None = None
        """Passes data to the transport in the next iteration of the event loop."""
        self._timer: asyncio.TimerHandle | None = None
        self._stalled: asyncio.TimerHandle | None = None
        self._resets = _Meter(_MOST_RESETS, _RESETS_A_SECOND)
        self._empty_frames = _Meter(_MOST_EMPTY_FRAMES, _EMPTY_FRAMES_A_SECOND)
        # The fields of responses are valid, lowercase and without those of one connection.
        config = H2Configuration(
            client_side=False, header_encoding=None, validate_outbound_headers=False, normalize_outbound_headers=False
        )
        self._h2 = H2Connection(config)
        settings = {
            SettingCodes.MAX_CONCURRENT_STREAMS: terms.max_streams,
            SettingCodes.MAX_HEADER_LIST_SIZE: _MAX_HEAD_BYTES,
        }
        self._h2.local_settings = _Settings(client=False, initial_values=settings)
        self._h2.decoder.max_header_list_size = _MAX_HEAD_BYTES

    # Lifecycle

    @property
    def idle(self) -> bool:
        """True while no request is in progress."""
        return not self._streams

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._tls = transport.get_extra_info("ssl_object")
        self._h2.initiate_connection()
        self._h2.increment_flow_control_window(_WINDOW_BYTES - _DEFAULT_WINDOW_BYTES)
        self._write()
        self._used()
        self._timer = self._loop.call_later(self._idle_seconds, self._close_if_idle)

    def connection_lost(self, exc: BaseException | None) -> None:
        self._transport = None
        for handle in (self._timer, self._stalled, self._writing):
            if handle is not None:
                handle.cancel()
        self._lose_streams()
        self._closed()

    def leave(self) -> None:
        """Send GOAWAY, complete requests in progress, then close the connection."""
        if self._last is not None or self._transport is None:
            return
        self._last = self._h2.highest_inbound_stream_id
        self._write()
        # close_connection() of h2 would end streams that are in progress.
        self._transport.write(GoAwayFrame(0, last_stream_id=self._last).serialize())
        self._end_if_done()

    def force_close(self) -> None:
        """Close the connection, and abort requests in progress."""
        if self._transport is not None:
            self._transport.close()
        self._lose_streams()

    def _used(self) -> None:
        self.unused_since = self._loop.time()

    def _close_if_idle(self) -> None:
        if self._streams:
            self._used()
        idle_until = self.unused_since + self._idle_seconds
        if self._loop.time() >= idle_until:
            self.leave()
        else:
            self._timer = self._loop.call_at(idle_until, self._close_if_idle)

    def _end_if_done(self) -> None:
        if self._last is not None and not self._streams and self._transport is not None:
            if self._timer is not None:
                self._timer.cancel()
            self._timer = self._loop.call_later(_FAREWELL_SECONDS, self.force_close)

    def _hang_up(self, problem: object) -> None:
        """Close the connection because of a protocol error of the client."""
        self._log_error(problem)
        self._write()
        self.force_close()

    def _lose_streams(self) -> None:
        for stream in list(self._streams.values()):
            self._remove(stream)
            stream.lose()

    # Received data

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
            case PingReceived() | PriorityUpdated() | UnknownFrameReceived():
                self._count_empty_frame()
            case RequestReceived():
                self._begin(event.stream_id, event.headers, body=event.stream_ended is None)
            case DataReceived() if not event.data and event.stream_ended is None:
                self._h2.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
                self._count_empty_frame()
            case DataReceived(stream_id=number) if number in self._streams:
                self._streams[number].receive(event.data, event.flow_controlled_length)
            case DataReceived():
                self._h2.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
            case StreamEnded(stream_id=number) if number in self._streams:
                self._streams[number].receive_end()
            case StreamReset():
                self._lost(event)
            case WindowUpdated(stream_id=number) if number:
                if number in self._blocked:
                    self._send_some(self._blocked[number])
            case WindowUpdated():
                self._send_blocked()
            case RemoteSettingsChanged():
                self._count_empty_frame()
                self._send_blocked()
            case ConnectionTerminated():
                self.force_close()

    def _begin(self, number: int, fields: Any, *, body: bool) -> None:
        if self._last is not None:
            self._h2.reset_stream(number, ErrorCodes.REFUSED_STREAM)
            return
        if self._is_at_stream_limit():
            self._h2.reset_stream(number, ErrorCodes.REFUSED_STREAM)
            self._count_reset()
            return
        method = method_of(fields)
        if method == b"CONNECT":  # protocol upgrades require HTTP/1.1
            self._h2.send_headers(number, [(b":status", b"405"), (b"content-length", b"0")], end_stream=True)
            if body:
                self._h2.reset_stream(number, ErrorCodes.NO_ERROR)
            return
        try:
            head = request_head(fields)
        except BadHeadError as error:
            self._log_error(error)
            self._h2.reset_stream(number, ErrorCodes.PROTOCOL_ERROR)
            return
        leave = random.random() < self._terms.goaway_chance  # noqa: S311 - distributes load, not security-relevant
        stream = Http2Request(self, number, head, remote=self.address, tls=self._tls, requested=not body, leave=leave)
        self._streams[number] = stream
        stream.task = self._loop.create_task(self._run(stream))
        self.tasks.add(stream.task)
        stream.task.add_done_callback(self.tasks.discard)

    async def _run(self, stream: Http2Request) -> None:
        try:
            await self._handler(stream)
        except ConnectionError:
            pass  # the stream is reset
        except Exception:
            _log.exception("apiserver panic'd", extra={"method": stream.method, "URI": stream.path})
        finally:
            stream.task = None
            self._handled(stream)

    def _is_at_stream_limit(self) -> bool:
        """Return whether the advertised number of streams is open.

        A stream counts until its response is sent: then the client may start another one, although the handler still
        has to complete. Including such handlers, the limit is twice the number.
        """
        count, most = len(self._streams), self._terms.max_streams
        if count < most:
            return False
        over = sum(stream.ended and stream.requested for stream in self._streams.values())
        return count - over >= most or count >= 2 * most

    def _lost(self, event: StreamReset) -> None:
        stream = self._streams.get(event.stream_id)
        if stream is not None:
            self._remove(stream)
            stream.lose()
        # A client ends a watch by a reset.
        if stream is None or not stream.started or not event.remote_reset:
            self._count_reset()

    def _count_reset(self) -> None:
        if self._resets.is_exceeded(self._loop.time()):
            self._h2.close_connection(ErrorCodes.ENHANCE_YOUR_CALM)
            self._hang_up("too many streams were reset")

    def _count_empty_frame(self) -> None:
        if self._empty_frames.is_exceeded(self._loop.time()):
            self._h2.close_connection(ErrorCodes.ENHANCE_YOUR_CALM)
            self._hang_up("too many frames without data")

    # Responses

    def send_head(self, stream: Http2Request, fields: Fields) -> None:
        if stream.number in self._streams:
            self._h2.send_headers(stream.number, fields)

    def flush(self, stream: Http2Request) -> None:
        if stream.number in self._streams:
            self._send_some(stream)
            self._write()

    def flush_soon(self, stream: Http2Request) -> None:
        if stream.number not in self._streams:
            return
        self._send_some(stream)
        if self._queued_bytes >= _BATCH_BYTES:
            self._write()
        elif self._writing is None:
            self._writing = self._loop.call_soon(self._write)

    def acknowledge(self, stream: Http2Request, size: int) -> None:
        if size and self._transport is not None:
            self._h2.acknowledge_received_data(size, stream.number)
            self._write()

    def reset(self, stream: Http2Request) -> None:
        self._cut(stream, ErrorCodes.CANCEL)

    def _handled(self, stream: Http2Request) -> None:
        """Close the stream when its handler has ended and the response is sent."""
        if stream.number not in self._streams:
            return
        stream.discard_received()
        if not stream.responded:
            self._cut(stream, ErrorCodes.INTERNAL_ERROR)
        elif not stream.ended:
            stream.cut_off = self._loop.call_later(STALLED_SECONDS, self._cut, stream, ErrorCodes.CANCEL)
        elif not stream.requested:
            self._cut(stream, ErrorCodes.NO_ERROR)  # the response is complete; the rest of the request is not read
        else:
            self._remove(stream)

    def _cut(self, stream: Http2Request, code: ErrorCodes) -> None:
        if stream.number not in self._streams:
            return
        stream.lost = True
        with contextlib.suppress(StreamClosedError):
            self._h2.reset_stream(stream.number, code)
        self._write()
        self._remove(stream)

    def _remove(self, stream: Http2Request) -> None:
        self._blocked.pop(stream.number, None)
        if stream.cut_off is not None:
            stream.cut_off.cancel()
        if self._streams.pop(stream.number, None) is not None:
            self._used()
            self._end_if_done()

    # Sent data

    def pause_writing(self) -> None:
        """Stop reading from a client that does not read: further requests would add responses."""
        self._full = True
        self._stalled = self._loop.call_later(STALLED_SECONDS, self._abort)
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

    def _send_some(self, stream: Http2Request) -> None:
        """Send as much of a response as the windows allow; a stream with unsent data is queued last."""
        h2, number, unsent = self._h2, stream.number, stream.unsent
        self._blocked.pop(number, None)
        while unsent and not self._full:
            size = min(len(unsent), h2.local_flow_control_window(number), h2.max_outbound_frame_size)
            if size <= 0:
                break
            piece = bytes(unsent[:size])
            del unsent[:size]
            stream.ended = stream.responded and not unsent
            h2.send_data(number, piece, end_stream=stream.ended)
            self._queued_bytes += size
        if unsent:
            self._blocked[number] = stream
        elif stream.responded and not stream.ended:
            stream.ended = True
            h2.end_stream(number)
        stream.sent_some()
        if stream.ended and stream.task is None:
            self._handled(stream)

    def _write(self) -> None:
        self._queued_bytes = 0
        if self._writing is not None:
            self._writing.cancel()
            self._writing = None
        data = self._h2.data_to_send()
        if data and self._transport is not None:
            self._transport.write(data)

"""Client side of an HTTP/2 connection, which carries many streamed responses.

Custom on top of ``h2``, since aiohttp supports only HTTP/1.1. Imported with the first HTTP/2 connection.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from h2.config import H2Configuration
from h2.connection import ConnectionInputs, H2Connection, H2ConnectionStateMachine
from h2.errors import ErrorCodes
from h2.events import ConnectionTerminated, DataReceived, Event, ResponseReceived, StreamEnded, StreamReset
from h2.exceptions import ProtocolError
from h2.settings import SettingCodes, Settings

from nodeagent.apiclient.connection import check_head
from nodeagent.apiclient.response_parser import MAX_HEAD_BYTES
from nodeagent.apiclient.transport import ConnectionLost, Response, reason_of

_READ_BYTES = 64 * 1024
_MOST_STREAMS = 100
"""Streams per connection, also if the server permits more; kube-apiserver permits as many by default."""
_STREAM_WINDOW_BYTES = (1 << 16) - 1
"""Flow-control window of a stream; that of the connection suffices for all, so that none waits for another."""
_QUIET_SECONDS = 30.0
"""Period of the checks that send a ping if nothing was received."""
_PING_SECONDS = 15.0
"""Time for the response to a ping."""


class Http2Connection(asyncio.Protocol):
    """A connection that carries concurrent requests without a body.

    :param writer: of the connection; what it receives is passed to :meth:`take_over`.
    """

    def __init__(self, writer: asyncio.StreamWriter) -> None:
        self._writer, self._transport = writer, writer.transport  # A writer that is collected closes its transport.
        self._streams: dict[int, Http2Stream] = {}
        self._closing = self._lost = False
        self._active = self._pinged = self._unused = False
        self._timer: asyncio.TimerHandle | None = None
        self._h2 = H2Connection(H2Configuration(client_side=True, header_encoding="latin-1"))
        self._h2.state_machine = _StatesAfterGoAway()
        values = {SettingCodes.ENABLE_PUSH: 0, SettingCodes.MAX_HEADER_LIST_SIZE: MAX_HEAD_BYTES}
        self._h2.local_settings = Settings(client=True, initial_values=values)
        self._h2.initiate_connection()
        self._h2.increment_flow_control_window((_MOST_STREAMS - 1) * _STREAM_WINDOW_BYTES)

    @property
    def is_closed(self) -> bool:
        return self._lost

    async def take_over(self, reader: asyncio.StreamReader) -> None:
        """Receive what *reader* has received, and everything from now on."""
        self._transport.set_protocol(self)
        self._set_timer(_QUIET_SECONDS)
        self._write()
        reader.feed_eof()
        try:
            if received := await reader.read():
                self.data_received(received)
        except OSError as error:
            self._lose(reason_of(error))
        if self._transport.is_closing():
            self._lose("server disconnected")

    @property
    def is_available(self) -> bool:
        """True if another stream can be opened."""
        most = min(self._h2.remote_settings.max_concurrent_streams, _MOST_STREAMS)
        return not self._closing and len(self._streams) < most

    def open(self, method: str, scheme: str, target: str, headers: Mapping[str, str]) -> Http2Stream:
        """Send a request and return the stream of its response, to be closed by the caller.

        :raises ConnectionLost: the connection has failed, or the request is invalid.
        """
        check_head(target, headers)
        if self._closing:
            raise ConnectionLost("the connection was closed")
        fields = {name.lower(): value for name, value in headers.items()}
        pseudo = {":method": method, ":scheme": scheme, ":authority": fields.pop("host"), ":path": target}
        try:
            number = self._h2.get_next_available_stream_id()
            self._h2.send_headers(number, list((pseudo | fields).items()), end_stream=True)
        except ProtocolError as error:
            self._closing = True
            raise ConnectionLost(f"no request is possible on the connection: {error}") from error
        self._streams[number] = stream = Http2Stream(self, number)
        self._write()
        return stream

    def close(self, stream: Http2Stream, unread_bytes: int, *, complete: bool) -> None:
        """Remove *stream*, and cancel it on the server unless its response is complete."""
        is_open = self._streams.pop(stream.number, None) is not None
        self.acknowledge(stream, unread_bytes)
        if is_open and not complete:
            self._h2.reset_stream(stream.number, ErrorCodes.CANCEL)
            self._write()
        self._end_if_done()

    def acknowledge(self, stream: Http2Stream, read_bytes: int) -> None:
        """Allow the server to send *read_bytes* more, also on other streams if it has reset this one."""
        if read_bytes and not self._lost:
            self._h2.acknowledge_received_data(read_bytes, stream.number)
            self._write()

    def abort(self) -> None:
        """Close the connection without waiting for the server; its streams fail."""
        self._lose("the connection was closed")

    # --- called by the event loop ---------------------------------------------------------------------------

    def data_received(self, data: bytes) -> None:
        self._active, self._pinged = True, False
        try:
            for event in self._h2.receive_data(data):
                self._act(event)
        except ProtocolError as error:
            self._lose(f"invalid response: {error}")
        self._write()

    def connection_lost(self, exc: Exception | None) -> None:
        self._lose(reason_of(exc) if isinstance(exc, OSError) else "server disconnected")

    def _check(self) -> None:
        """Send a ping if nothing was received since the last check, and close a connection that is dead or unused."""
        if self._active:
            self._active = False
            self._set_timer(_QUIET_SECONDS)
        elif self._pinged:
            self._lose(f"no response to a ping within {_PING_SECONDS:g} s")
        elif self._unused and not self._streams:
            self.abort()
        else:
            self._pinged, self._unused = True, not self._streams
            self._h2.ping(bytes(8))
            self._write()
            self._set_timer(_PING_SECONDS)

    def _set_timer(self, seconds: float) -> None:
        self._timer = asyncio.get_running_loop().call_later(seconds, self._check)

    def _lose(self, problem: str) -> None:
        self._closing = self._lost = True
        if self._timer is not None:
            self._timer.cancel()
        self._transport.abort()
        while self._streams:
            self._streams.popitem()[1].fail(problem)

    def _act(self, event: Event) -> None:
        match event:
            case DataReceived(stream_id=int(number)) if number in self._streams:
                self._streams[number].receive(event.data, event.flow_controlled_length)
            case ResponseReceived(stream_id=int(number)) if number in self._streams:
                headers = {str(name): str(value) for name, value in event.headers}
                self._streams[number].start(Response(int(headers.pop(":status")), headers))
            case StreamEnded(stream_id=int(number)) if number in self._streams:
                self._streams[number].end()
            case StreamReset(stream_id=int(number)) if number in self._streams:
                self._fail(number, f"the server reset the stream: {_name(event.error_code)}")
            case ConnectionTerminated():
                self._closing = True
                for number in [number for number in self._streams if number > (event.last_stream_id or 0)]:
                    self._fail(number, f"the server closes the connection: {_name(event.error_code)}")
                self._end_if_done()

    def _fail(self, number: int, problem: str) -> None:
        self._streams.pop(number).fail(problem)

    def _end_if_done(self) -> None:
        if self._closing and not self._streams:
            self.abort()

    def _write(self) -> None:
        data = self._h2.data_to_send()
        if data and not self._lost:
            self._transport.write(data)


class Http2Stream:
    """The response to one request; the caller limits the time of each method."""

    __slots__ = ("_body", "_complete", "_connection", "_head", "_problem", "_unread_bytes", "_waiter", "number")

    def __init__(self, connection: Http2Connection, number: int) -> None:
        self.number = number
        self._connection = connection
        self._head: Response | None = None
        self._body = bytearray()
        self._unread_bytes = 0
        """Size of the unread data in the flow-control window."""
        self._complete = False
        self._problem = ""
        self._waiter: asyncio.Future[None] | None = None

    async def head(self) -> Response:
        """Return status and headers once they have arrived.

        :raises ConnectionLost: the connection or the request failed.
        """
        while self._head is None:
            await self._wait()
        return self._head

    async def read(self) -> bytes:
        while not self._body and not self._complete:
            await self._wait()
        piece = bytes(self._body)
        self._body.clear()
        self._connection.acknowledge(self, self._take_unread())
        return piece

    def close(self) -> None:
        """End the response, also an incomplete one."""
        self._connection.close(self, self._take_unread(), complete=self._complete)

    # --- called by the connection ---------------------------------------------------------------------------

    def start(self, head: Response) -> None:
        self._head = head
        self._wake()

    def receive(self, data: bytes, size: int) -> None:
        self._body += data
        self._unread_bytes += size
        self._wake()

    def end(self) -> None:
        self._complete = True
        self._wake()

    def fail(self, problem: str) -> None:
        if not self._complete:
            self._problem = problem
            self._wake()

    def _take_unread(self) -> int:
        size, self._unread_bytes = self._unread_bytes, 0
        return size

    async def _wait(self) -> None:
        if self._problem:
            raise ConnectionLost(self._problem)
        self._waiter = asyncio.get_running_loop().create_future()
        try:
            await self._waiter
        finally:
            self._waiter = None

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)


class _StatesAfterGoAway(H2ConnectionStateMachine):
    """States in which streams continue after the server has announced the end of the connection."""

    def process_input(self, input_: ConnectionInputs) -> list[Event]:
        return [] if input_ is ConnectionInputs.RECV_GOAWAY else super().process_input(input_)


def _name(code: ErrorCodes | int | None) -> str:
    return code.name if isinstance(code, ErrorCodes) else str(code)

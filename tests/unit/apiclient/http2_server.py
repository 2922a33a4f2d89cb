"""HTTP/2 connections without a socket."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.events import Event, PingReceived, RequestReceived, StreamReset, WindowUpdated
from h2.settings import SettingCodes
from hyperframe.frame import GoAwayFrame

from nodeagent.apiclient.http2 import Http2Connection, Http2Stream
from tests.unit.apiclient.streams import PreparedServer

HEADERS = {"Host": "api:6443", "Accept": "application/json"}


class Http2Peer:
    """Server side of one connection, which the test determines.

    :ivar h2: the server's side; :meth:`send` transmits what it has queued.
    """

    def __init__(self, streams: int = 100) -> None:
        self.prepared = PreparedServer(protocol="h2")
        self.h2 = H2Connection(H2Configuration(client_side=False, header_encoding="latin-1"))
        self.h2.initiate_connection()
        self.h2.update_settings({SettingCodes.MAX_CONCURRENT_STREAMS: streams})
        self._events: list[Event] = []
        self._received = self._responded = 0
        self.send()

    @property
    def aborted(self) -> bool:
        return self.prepared.transport.aborted

    def respond(self, number: int, status: int = 200, body: bytes | None = None) -> None:
        """Send the head of a response, and *body* as the complete one unless it is ``None``."""
        self.receive()
        self.h2.send_headers(number, [(":status", str(status)), ("x-kind", "Test")])
        if body is not None:
            self.h2.send_data(number, body, end_stream=True)
        self.send()

    def respond_to_all(self) -> None:
        """Start the responses to all new requests."""
        requests = [event for event in self.receive() if isinstance(event, RequestReceived)]
        for event in requests[self._responded :]:
            self.respond(event.stream_id or 0)
        self._responded = len(requests)

    def send_data(self, number: int, data: bytes) -> None:
        self.h2.send_data(number, data)
        self.send()

    def go_away(self, last: int) -> None:
        """Announce the end of the connection; streams up to *last* continue."""
        self.feed(GoAwayFrame(0, last_stream_id=last).serialize())

    def send(self) -> None:
        """Transmit what the server's side has queued."""
        if data := self.h2.data_to_send():
            self.feed(data)

    def feed(self, data: bytes) -> None:
        protocol = self.prepared.transport.protocol
        if protocol is not None:
            protocol.data_received(data)
        else:
            self.prepared.reader.feed_data(data)

    def end(self, error: Exception | None = None) -> None:
        """Close the server's side of the connection."""
        assert self.prepared.transport.protocol is not None
        self.prepared.transport.protocol.connection_lost(error)

    def receive(self) -> list[Event]:
        """Return all events of the server's side, with those of data that the client has sent since the last call."""
        sent = bytes(self.prepared.transport.sent[self._received :])
        self._received += len(sent)
        self._events += self.h2.receive_data(sent)
        return self._events

    def requests(self) -> list[dict[str, str]]:
        received = [event.headers or [] for event in self.receive() if isinstance(event, RequestReceived)]
        return [{str(name): str(value) for name, value in headers} for headers in received]

    def resets(self) -> list[int | None]:
        return [event.stream_id for event in self.receive() if isinstance(event, StreamReset)]

    def pings(self) -> int:
        return sum(isinstance(event, PingReceived) for event in self.receive())

    def windows(self) -> list[int | None]:
        """Return the streams, 0 for the connection, whose windows the client has enlarged."""
        return [event.stream_id for event in self.receive() if isinstance(event, WindowUpdated)]


class Http2Server(Http2Peer):
    """A connection with both sides.

    :ivar connection: the client's side.
    """

    def __init__(self, streams: int = 100) -> None:
        super().__init__(streams)
        self.connection = Http2Connection(self.prepared.writer)

    async def __aenter__(self) -> Http2Server:
        await self.connection.take_over(self.prepared.reader)
        return self

    async def __aexit__(self, *_: object) -> None:
        self.connection.abort()

    def open(self, target: str = "/watch", headers: Mapping[str, str] = HEADERS) -> Http2Stream:
        return self.connection.open("GET", "https", target, headers)

    async def opened(self, target: str = "/watch") -> Http2Stream:
        """Open a stream whose response has started."""
        stream = self.open(target)
        self.respond(stream.number)
        await settle()
        return stream


async def settle() -> None:
    """Wait until the client has processed what it was sent."""
    for _ in range(20):
        await asyncio.sleep(0)

"""Streams of a server that has sent prepared bytes, without a socket."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace

from nodeagent.apiclient.connection import Connection


class SentBytes(asyncio.Transport):
    """Transport that records what a client sends; *protocol* was negotiated by TLS."""

    def __init__(self, protocol: str | None) -> None:
        super().__init__({"ssl_object": SimpleNamespace(selected_alpn_protocol=lambda: protocol)})
        self.sent = bytearray()
        self.aborted = False
        self.protocol: asyncio.Protocol | None = None
        """Protocol that has replaced the streams."""

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.sent += data

    def abort(self) -> None:
        self.aborted = True

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        assert isinstance(protocol, asyncio.Protocol)
        self.protocol = protocol

    def is_closing(self) -> bool:
        return self.aborted or self.protocol is None  # A writer closes its transport when it is collected.


class PreparedServer:
    """One connection to a server that has sent *received* already.

    :ivar reader: receives more data and the end of the connection.
    """

    def __init__(self, received: bytes = b"", protocol: str | None = None) -> None:
        loop = asyncio.get_running_loop()
        self.reader = asyncio.StreamReader()
        self.reader.feed_data(received)
        self.transport = SentBytes(protocol)
        self.writer = asyncio.StreamWriter(self.transport, asyncio.StreamReaderProtocol(self.reader), self.reader, loop)
        self.connection = Connection(self.reader, self.writer)

    @property
    def request(self) -> str:
        """The bytes that the client has sent."""
        return self.transport.sent.decode()

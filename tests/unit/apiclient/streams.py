"""Streams of a server that has sent prepared bytes, without a socket."""

from __future__ import annotations

import asyncio

from nodeagent.apiclient.connection import Connection


class SentBytes(asyncio.Transport):
    """Transport that records what a client sends."""

    def __init__(self) -> None:
        super().__init__()
        self.sent = bytearray()
        self.aborted = False

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.sent += data

    def abort(self) -> None:
        self.aborted = True

    def is_closing(self) -> bool:
        return True  # A writer closes its transport when it is collected.


class PreparedServer:
    """One connection to a server that has sent *received* already.

    :ivar reader: receives more data and the end of the connection.
    """

    def __init__(self, received: bytes = b"") -> None:
        loop = asyncio.get_running_loop()
        self.reader = asyncio.StreamReader()
        self.reader.feed_data(received)
        self.transport = SentBytes()
        self.writer = asyncio.StreamWriter(self.transport, asyncio.StreamReaderProtocol(self.reader), self.reader, loop)
        self.connection = Connection(self.reader, self.writer)

    @property
    def request(self) -> str:
        """The bytes that the client has sent."""
        return self.transport.sent.decode()

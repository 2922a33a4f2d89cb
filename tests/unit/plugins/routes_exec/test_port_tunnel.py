"""Tests for port forwarding over WebSockets, with fakes of both sides."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace

import pytest
from aiohttp import WSMsgType

from nodeagent.base.spdy_streams import UpgradeFailed
from nodeagent.contracts.server import SENT_BYTES
from nodeagent_plugins.routes_exec import port_tunnel, translation
from nodeagent_plugins.routes_exec.port_tunnel import tunnel_ports

PROTOCOL = "portforward.k8s.io"


class Socket:
    """A WebSocket with the messages of its client; it stays open after them, unless the last one is ``None``."""

    def __init__(self, *messages):
        self.messages, self.sent, self.closed = list(messages), [], False

    def __aiter__(self):
        return self

    async def __anext__(self):
        if not self.messages:
            await asyncio.Event().wait()
        message = self.messages.pop(0)
        if message is None:
            raise StopAsyncIteration
        return SimpleNamespace(type=message[0], data=message[1])

    async def send_bytes(self, data):
        self.sent.append(data)

    async def close(self):
        self.closed = True


class Connection:
    """An SPDY connection."""

    def __init__(self, protocol=PROTOCOL):
        self.protocol, self.sent, self.closed, self.reader = protocol, [], False, asyncio.StreamReader()

    async def send(self, data):
        self.sent.append(data)
        if data == b"reset":
            raise ConnectionResetError

    def close(self):
        self.closed = True


@pytest.fixture
async def tunnel(monkeypatch, clock):
    """Return a function that connects a socket to a connection and returns the accepted protocols."""
    SENT_BYTES.set(SimpleNamespace(count=0))

    async def run(socket, connection, idle_seconds=60.0):
        accepted = []

        async def open_spdy(_url, _protocols):
            return connection

        async def accept(_request, protocols):
            accepted.extend(protocols)
            return socket

        monkeypatch.setattr(port_tunnel, "open_spdy", open_spdy)
        monkeypatch.setattr(port_tunnel, "accept", accept)
        async with asyncio.timeout(20):
            await tunnel_ports(None, "http://127.0.0.1/x", [PROTOCOL], clock, idle_seconds)
        return accepted

    return run


async def test_bytes_are_copied_until_the_client_closes(tunnel):
    socket, connection = Socket((WSMsgType.BINARY, b"a"), (WSMsgType.BINARY, b"b"), None), Connection()

    assert await tunnel(socket, connection) == [f"SPDY/3.1+{PROTOCOL}"]
    assert connection.sent == [b"a", b"b"]
    assert socket.closed and connection.closed


async def test_bytes_of_the_runtime_are_copied_and_counted(tunnel):
    socket, connection = Socket(), Connection()
    connection.reader.feed_data(b"answer")
    connection.reader.feed_eof()

    await tunnel(socket, connection)

    assert socket.sent == [b"answer"] and SENT_BYTES.get().count == 6
    assert socket.closed and connection.closed


async def test_text_of_the_client_ends_the_tunnel(tunnel):
    socket, connection = Socket((WSMsgType.TEXT, "a"), (WSMsgType.BINARY, b"b")), Connection()

    await tunnel(socket, connection)

    assert connection.sent == []


async def test_lost_connection_ends_the_tunnel(tunnel):
    socket, connection = Socket((WSMsgType.BINARY, b"reset")), Connection()
    await tunnel(socket, connection)
    assert socket.closed and connection.closed


async def test_runtime_without_the_protocol_rejects_the_client(tunnel):
    socket, connection = Socket(), Connection(protocol="")
    with pytest.raises(UpgradeFailed, match=f"the runtime does not support {PROTOCOL}"):
        await tunnel(socket, connection)
    assert connection.closed and not socket.closed


async def test_translated_client_sends_and_receives_binary_messages_only():
    touched = []
    socket = Socket((WSMsgType.TEXT, "x"), (WSMsgType.BINARY, b"a"), None)
    client = translation._Client(socket, SimpleNamespace(touch=lambda: touched.append(1)))

    assert [message async for message in client.messages()] == [b"a"] and len(touched) == 1
    await client.send(b"b")
    assert socket.sent == [b"b"] and len(touched) == 2

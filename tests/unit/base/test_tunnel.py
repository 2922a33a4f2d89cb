"""Tests for tunnels: forwarding, limits, backpressure, and the response before the tunnel."""

import asyncio
import gc
import weakref
from types import SimpleNamespace

import pytest

from nodeagent.base.tunnel import MAX_HEAD_BYTES, End, MalformedResponseHead, Tunnel, is_upgrade, without_token


class Transport:
    """A transport that records what is written."""

    def __init__(self):
        self.written, self.reading, self.closing = b"", True, False

    def set_write_buffer_limits(self, high):
        pass

    def is_closing(self):
        return self.closing

    def write(self, data):
        self.written += data

    def pause_reading(self):
        self.reading = False

    def resume_reading(self):
        self.reading = True

    def close(self):
        self.closing = True

    abort = close


def connect(clock, idle_seconds=0):
    tunnel = Tunnel(clock, idle_seconds)
    ends = End(tunnel), End(tunnel)
    for end in ends:
        end.connection_made(Transport())
    return tunnel, *ends


async def test_bytes_are_forwarded_until_one_side_closes(clock):
    for closing in (0, 1):
        tunnel, one, other = connect(clock)
        sent_to_one, sent_to_other = one._transport, other._transport
        one.data_received(b"early")
        passing = asyncio.create_task(tunnel.pass_bytes(one, other))
        await clock.settle()
        one.data_received(b" late")
        tunnel.piece[:2] = b"hi"
        other.buffer_updated(2)
        await clock.advance(1000)
        assert not passing.done()
        (one, other)[closing].connection_lost(None)
        await clock.settle()

        assert passing.done(), closing
        assert (sent_to_other.written, sent_to_one.written) == (b"early late", b"hi")
        assert (one.passed, other.passed) == (10, 2)


async def test_closed_connections_are_released_without_a_garbage_collection(clock):
    _, one, other = connect(clock)
    one.meet(other)
    other.meet(one)
    released = [weakref.ref(part) for end in (one, other) for part in (end, end._transport)]
    gc.disable()
    try:
        one.connection_lost(None)
        other.connection_lost(None)
        del one, other
        assert [part() for part in released] == [None] * 4
    finally:
        gc.enable()


async def test_idle_tunnel_ends_after_its_limit(clock):
    tunnel, one, other = connect(clock, 10)
    passing = asyncio.create_task(tunnel.pass_bytes(one, other))
    await clock.advance(9)
    other.data_received(b"x")
    await clock.advance(9)
    assert not passing.done()
    await clock.advance(1)
    assert passing.done()


async def test_full_receiver_pauses_the_sender(clock):
    tunnel, one, other = connect(clock)
    one.pause_writing()  # Not connected to the other side yet.
    passing = asyncio.create_task(tunnel.pass_bytes(one, other))
    await clock.settle()

    one.pause_writing()
    assert (one._transport.reading, other._transport.reading) == (True, False)
    one.resume_writing()
    assert other._transport.reading
    other._transport.closing = True
    one.pause_writing()
    assert other._transport.reading
    one.data_received(b"lost")
    assert other._transport.written == b""
    passing.cancel()


async def test_end_is_closed_once_and_aborted_if_it_does_not_close(clock):
    _, one, other = connect(clock)
    one.close()
    assert one._transport.closing
    transport = other._transport
    other.connection_lost(None)
    other.close()
    assert not transport.closing
    End(Tunnel(clock)).close()


async def test_response_before_the_tunnel_is_read(clock):
    async def read(*pieces, close=False):
        _, end, _ = connect(clock)
        reading = asyncio.create_task(end.read_head(5))
        for piece in pieces:
            await clock.settle()
            end.data_received(piece)
        await clock.settle()
        if close:
            end.connection_lost(None)
        return await reading

    assert await read(b"HTTP/1.1 101 OK\r\n\r\nrest") == (101, b"HTTP/1.1 101 OK\r\n\r\n", b"rest")
    assert await read(b"HTTP/1.0 403\r\n", b"A: b\r\n\r\n") == (403, b"HTTP/1.0 403\r\nA: b\r\n\r\n", b"")
    for pieces in [(b"HTTP/1.1\r\n\r\n",), (b"SSH-2.0 101 x\r\n\r\n",), (b"HTTP/1.1 abc\r\n\r\n",)]:
        with pytest.raises(MalformedResponseHead, match="that is not HTTP"):
            await read(*pieces)
    with pytest.raises(MalformedResponseHead, match="no valid response"):
        await read(b"HTTP/1.1 200", close=True)
    with pytest.raises(MalformedResponseHead, match="no valid response"):
        await read(b"x" * (MAX_HEAD_BYTES + 1))
    _, end, _ = connect(clock)
    with pytest.raises(TimeoutError):
        await end.read_head(0)


async def test_rest_of_a_response_is_limited(clock):
    async def read(received, size, limit, *, close=False, seconds=5):
        _, end, _ = connect(clock)
        reading = asyncio.create_task(end.read_rest(size, limit, seconds))
        await clock.settle()
        end.data_received(received)
        if close:
            end.connection_lost(None)
        return await reading

    assert await read(b"12345", 5, 10) == b"12345"
    assert await read(b"12345", 3, 10) == b"123"
    assert await read(b"12345", 10, 4) == b"1234"
    assert await read(b"12345", 10, 10, close=True) == b"12345"
    _, end, _ = connect(clock)
    end.data_received(b"123")
    assert await end.read_rest(10, 10, 0) == b"123"


def test_upgrade_needs_both_headers():
    for headers, expected in [
        ({"Connection": "Upgrade", "Upgrade": "SPDY/3.1"}, True),
        ({"Connection": "keep-alive, upgrade", "Upgrade": "x"}, True),
        ({"Connection": "Upgrade"}, False),
        ({"Upgrade": "SPDY/3.1"}, False),
        ({"Connection": "close", "Upgrade": "x"}, False),
    ]:
        assert is_upgrade(SimpleNamespace(headers=headers)) is expected, headers


def test_token_is_removed_from_the_subprotocols():
    assert without_token(b"v4, base64url.bearer.authorization.k8s.io.abc, v5") == b"v4, v5"
    assert without_token(b"v4") == b"v4"

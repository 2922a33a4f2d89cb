"""Tests for WebSocket connections that receive messages: fragments, limits and backpressure."""

from __future__ import annotations

import asyncio

import pytest

from apiserver_stub.transport.message_socket import MAX_MESSAGE_BYTES, QUEUED_BYTES, MessageSocket

from .test_websocket import Line, masked

CONTINUATION, TEXT, BINARY, CLOSE, PING = 0, 1, 2, 8, 9


class Pausing(Line):
    """Transport that records whether it is read."""

    def __init__(self) -> None:
        super().__init__()
        self.paused = False

    def pause_reading(self) -> None:
        self.paused = True

    def resume_reading(self) -> None:
        self.paused = False


def connected() -> tuple[MessageSocket, Pausing]:
    socket, line = MessageSocket(), Pausing()
    socket.connection_made(line)
    return socket, line


def fragment(opcode: int, payload: bytes) -> bytes:
    """Return a frame that is not the last of its message."""
    frame = masked(opcode, payload)
    return bytes([frame[0] & 0x7F]) + frame[1:]


async def received(socket: MessageSocket) -> list[bytes]:
    async with asyncio.timeout(5):
        return [message async for message in socket.messages()]


async def test_messages_are_joined_from_fragments_and_pieces() -> None:
    socket, line = connected()
    frames = fragment(BINARY, b"\0a") + masked(PING, b"p") + masked(CONTINUATION, b"b") + masked(TEXT, b"ignored")

    for byte in frames + masked(BINARY, b"x" * 1000) + masked(BINARY) + masked(CLOSE, b"\x03\xe8"):
        socket.data_received(bytes([byte]))

    assert await received(socket) == [b"\0ab", b"x" * 1000, b""]
    assert line.written.startswith(b"\x8a\x01p")


async def test_waiting_reader_gets_the_next_message_and_the_end() -> None:
    socket, _ = connected()
    reading = asyncio.ensure_future(received(socket))
    await asyncio.sleep(0)

    socket.data_received(masked(BINARY, b"a"))
    await asyncio.sleep(0)
    socket.connection_lost(None)

    assert await reading == [b"a"]


async def test_client_waits_while_messages_are_not_read() -> None:
    socket, line = connected()
    piece = b"x" * 50_000
    sent = 0
    while not line.paused:
        socket.data_received(masked(BINARY, piece))
        sent += 1

    messages = socket.messages()
    for _ in range(sent):
        await anext(messages)

    assert QUEUED_BYTES <= sent * len(piece) < QUEUED_BYTES + len(piece)
    assert not line.paused


@pytest.mark.parametrize(
    ("frames", "status"),
    [
        (masked(CONTINUATION, b"a"), 1002),
        (fragment(BINARY, b"a") + masked(BINARY, b"b"), 1002),
        (b"\x82\xff" + (MAX_MESSAGE_BYTES + 1).to_bytes(8) + b"mask", 1009),
        (b"".join([fragment(BINARY, b"a" * 100), *[fragment(CONTINUATION, b"x" * 60_000)] * 70]), 1009),
    ],
)
async def test_invalid_message_closes_the_connection(frames: bytes, status: int) -> None:
    socket, line = connected()

    socket.data_received(frames)

    assert await received(socket) == []
    assert line.written == b"\x88\x02" + status.to_bytes(2)


@pytest.mark.parametrize(("last", "paused"), [(32767, False), (32768, True)])
async def test_reading_is_paused_at_the_limit_and_resumed_below_it(last: int, paused: bool) -> None:
    socket, line = connected()
    for size in (*[32768] * (QUEUED_BYTES // 32768 - 1), last):
        assert not line.paused
        socket.data_received(masked(BINARY, b"x" * size))
    assert line.paused is paused

    await anext(socket.messages())

    assert not line.paused

"""Tests for clients that send frames which cost the server more than themselves."""

from __future__ import annotations

import pytest
from h2.errors import ErrorCodes
from h2.events import ConnectionTerminated
from hyperframe.frame import (
    ContinuationFrame,
    DataFrame,
    Frame,
    HeadersFrame,
    PingFrame,
    PriorityFrame,
    SettingsFrame,
    WindowUpdateFrame,
)

from apiserver_stub.transport.http2 import connection as module
from tests.unit.apiserver_stub.transport.http2.test_connection import Harness, _closed_connections

__all__ = ["_closed_connections"]

FRAMES = {
    "ping": PingFrame(0, b"12345678"),
    "settings": SettingsFrame(0, {SettingsFrame.INITIAL_WINDOW_SIZE: 70000}),
    "priority": PriorityFrame(5, depends_on=3, stream_weight=1),
    "empty data": DataFrame(1, b""),
    "padded empty data": DataFrame(1, b"", pad_length=0, flags=["PADDED"]),
}


def flood(harness: Harness, frame: Frame, count: int) -> None:
    data = frame.serialize() * 50
    for _ in range(count // 50):
        if harness.line.closing:
            return
        harness.connection.data_received(data)
        harness.events += harness.client.receive_data(bytes(harness.line.written))
        harness.line.written.clear()


@pytest.mark.parametrize("frame", FRAMES.values(), ids=FRAMES)
async def test_flood_of_frames_without_data_ends_the_connection(frame: Frame) -> None:
    harness = Harness()
    await harness.send("POST", end=False)

    flood(harness, frame, 2 * module._MOST_EMPTY_FRAMES)

    assert harness.line.closing
    assert harness.seen(ConnectionTerminated)[0].error_code == ErrorCodes.ENHANCE_YOUR_CALM
    assert harness.protocol_errors == ["too many frames without data"]


async def test_flood_of_continuations_ends_the_connection() -> None:
    harness = Harness()
    headers = HeadersFrame(1, harness.client.encoder.encode([(b":method", b"GET"), (b":path", b"/")]))
    harness.connection.data_received(headers.serialize())
    sent = 0
    while not harness.line.closing and sent < 1000:
        harness.connection.data_received(ContinuationFrame(1, b"").serialize())
        sent += 1

    assert harness.line.closing and sent < 100
    assert harness.handled == []


async def test_header_bomb_is_rejected() -> None:
    harness = Harness()
    encoder = harness.client.encoder
    start = [(b":method", b"GET"), (b":path", b"/"), (b":scheme", b"https"), (b":authority", b"api")]
    block = encoder.encode([*start, (b"x-large", b"x" * 3900)])
    block += encoder.encode([(b"x-large", b"x" * 3900)]) * 10000  # One byte each, from the dynamic table.
    pieces = [block[at : at + 16000] for at in range(0, len(block), 16000)]
    frames = [HeadersFrame(1, pieces[0]), *(ContinuationFrame(1, piece) for piece in pieces[1:])]
    frames[-1].flags.add("END_HEADERS")
    harness.connection.data_received(b"".join(frame.serialize() for frame in frames))

    assert harness.line.closing
    assert harness.handled == []


async def test_resets_that_a_client_provokes_end_the_connection() -> None:
    harness = Harness()
    for _ in range(10 * module._MOST_RESETS):
        if harness.line.closing:
            break
        number = await harness.send()
        harness.connection.data_received(WindowUpdateFrame(number, 0x7FFFFFFF).serialize())

    assert harness.line.closing
    assert len(harness.handled) <= module._MOST_RESETS + 10


@pytest.mark.parametrize("number", [0, 1, 2])
async def test_frames_of_unknown_types_are_ignored(number: int) -> None:
    harness = Harness()
    frames = b"".join(bytes((0, 0, 4, kind, 0)) + number.to_bytes(4, "big") + bytes(4) for kind in range(0x0A, 0x10))
    await harness.send("POST", end=False)

    harness.connection.data_received(frames)
    await harness.send()

    assert not harness.line.closing
    assert len(harness.handled) == 2


async def test_headers_without_names_are_not_collected() -> None:
    harness = Harness()
    start = [(b":method", b"GET"), (b":path", b"/"), (b":scheme", b"https"), (b":authority", b"api")]
    block = harness.client.encoder.encode([*start, *[(b"", b"")] * 1000])
    frame = HeadersFrame(1, block, flags=["END_HEADERS"])
    harness.connection.data_received(frame.serialize())
    await harness.settle()

    assert harness.handled == []

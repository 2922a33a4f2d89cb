"""Frames of SPDY and WebSocket connections."""

from __future__ import annotations

import struct
from typing import Any

from apiserver_stub.transport.message_socket import MAX_MESSAGE_BYTES, MessageSocket
from apiserver_stub.transport.websocket import WebSocket, can_accept
from nodeagent.base import spdy as spdy_frames
from tests.fuzz.connections import Transport
from tests.fuzz.target import target


@target(
    spdy_frames.SpdyError,
    tokens=(
        b"\x80\x03\x00\x01",
        b"\x80\x03\x00\x06",
        b"\x00\x00\x00\x04",
        b"\x01\xff\xff\xff",
        b"\x78\xf9\xe3\xc6\xa7\xc2",
    ),
)
def spdy(data: bytes) -> None:
    """The frames do not depend on the pieces in which they are received."""
    complete = list(spdy_frames.Reader().feed(data))
    reader = spdy_frames.Reader()
    assert [frame for at in range(0, len(data), 3) for frame in reader.feed(data[at : at + 3])] == complete
    assert sum(len(name) + len(value) for frame in complete for name, value in frame.headers.items()) < 1 << 22


@target(spdy_frames.SpdyError)
def spdy_headers(data: bytes) -> None:
    """Headers are read as they were written; invalid ones are rejected."""
    count = data[0] if data else 0
    writer = spdy_frames.Writer()
    packed = writer._deflate.compress(data) + writer._deflate.flush()
    body = struct.pack("!IIH", 1, 0, 0) + packed
    frame = struct.pack("!II", 1 << 31 | spdy_frames.VERSION << 16 | spdy_frames.Kind.SYN_STREAM, len(body)) + body
    headers = {f"name-{number}": data[number:].decode("utf-8", "replace") for number in range(count % 8)}
    (read,) = spdy_frames.Reader().feed(spdy_frames.Writer().syn_stream(1, headers))
    assert read.headers == headers
    list(spdy_frames.Reader().feed(frame))


@target(
    tokens=(
        b"\x82\x80\x00\x00\x00\x00",
        b"\x82\xfe\x01\x00",
        b"\x82\xff",
        b"\x88\x82",
        b"\x89\x80",
        b"\x00\x80",
        b"\xff" * 8,
    )
)
def websocket(data: bytes) -> None:
    """The messages do not depend on the pieces in which they are received, and memory is bounded."""
    complete, response = _received([data])
    pieces = [data[at : at + 3] for at in range(0, len(data), 3)]
    assert _received(pieces) == (complete, response)
    assert all(len(message) <= MAX_MESSAGE_BYTES for message in complete)
    ignoring = WebSocket()
    ignoring.connection_made(Transport())
    for piece in pieces:
        ignoring.data_received(piece)
    assert len(ignoring._received) < 200


def _received(pieces: list[bytes]) -> tuple[list[bytes], bytes]:
    socket, transport = MessageSocket(), Transport()
    socket.connection_made(transport)
    for piece in pieces:
        socket.data_received(piece)
    socket.connection_lost(None)
    return list(socket._messages), bytes(transport.written)


class _Request:
    def __init__(self, headers: dict[str, str]) -> None:
        self.headers = headers


@target()
def websocket_handshake(data: bytes) -> None:
    """An invalid key is rejected."""
    request: Any = _Request(
        {
            "Connection": "Upgrade",
            "Upgrade": "websocket",
            "Sec-WebSocket-Version": "13",
            "Sec-WebSocket-Key": data.decode("utf-8", "surrogateescape"),
        }
    )
    can_accept(request)

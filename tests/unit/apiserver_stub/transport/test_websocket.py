"""Tests for WebSocket connections: frames, ping, close and invalid frames."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from apiserver_stub.transport import backpressure, websocket
from apiserver_stub.transport.websocket import WebSocket

from .fake_http import FakeHttpRequest

HANDSHAKE = {
    "Upgrade": "websocket",
    "Connection": "keep-alive, Upgrade",
    "Sec-WebSocket-Version": "13",
    "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==",
}
CLOSE = b"\x88\x02\x03\xe8"
"""Close frame of the server with the status 1000."""


class Line(asyncio.Transport):
    """Transport that records written bytes."""

    def __init__(self) -> None:
        super().__init__()
        self.written = bytearray()
        self.closing = False

    def write(self, data: Any) -> None:
        self.written += data

    def is_closing(self) -> bool:
        return self.closing

    def close(self) -> None:
        self.closing = True

    def abort(self) -> None:
        self.closing = True


def connected() -> tuple[WebSocket, Line]:
    socket, line = WebSocket(), Line()
    socket.connection_made(line)
    return socket, line


def masked(opcode: int, payload: bytes = b"") -> bytes:
    """Return a frame of a client."""
    mask = b"\x01\x02\x03\x04"
    size = len(payload)
    length = bytes([0x80 | size]) if size < 126 else b"\xfe" + size.to_bytes(2, "big")
    return bytes([0x80 | opcode]) + length + mask + bytes(byte ^ mask[at % 4] for at, byte in enumerate(payload))


def test_accepted_handshake_has_the_digest_of_the_key() -> None:
    http = FakeHttpRequest(headers=HANDSHAKE)
    assert websocket.can_accept(http)

    websocket.accept(http, "chat", [("X-A", "b")])

    assert dict(http.sent_headers) == {
        "Upgrade": "websocket",
        "Connection": "Upgrade",
        "Sec-WebSocket-Accept": "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=",  # the example of RFC 6455
        "Sec-WebSocket-Protocol": "chat",
        "X-A": "b",
    }


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("Upgrade", "h2c"),
        ("Connection", "close"),
        ("Sec-WebSocket-Version", "8"),
        ("Sec-WebSocket-Key", "short"),
        ("Sec-WebSocket-Key", "*"),
    ],
)
def test_invalid_handshake_is_not_accepted(name: str, value: str) -> None:
    assert not websocket.can_accept(FakeHttpRequest(headers={**HANDSHAKE, name: value}))


@pytest.mark.parametrize(
    ("size", "head"),
    [(5, b"\x05"), (126, b"\x7e\x00\x7e"), (1 << 16, b"\x7f\x00\x00\x00\x00\x00\x01\x00\x00")],
)
@pytest.mark.parametrize(("text", "first"), [(True, b"\x81"), (False, b"\x82")])
async def test_message_is_sent_as_one_frame(size: int, head: bytes, text: bool, first: bytes) -> None:
    socket, line = connected()

    await socket.send(b"a" * size, text=text)

    assert bytes(line.written) == first + head + b"a" * size


async def test_messages_of_the_client_are_ignored_and_pings_returned() -> None:
    socket, line = connected()
    data = masked(1, b"some") + masked(2, b"x" * 70_0) + masked(9, b"ping") + masked(8, b"\x03\xe8bye")
    for byte in data:
        assert not line.closing
        socket.data_received(bytes([byte]))

    assert bytes(line.written) == b"\x8a\x04ping" + CLOSE
    await socket.wait_closed()
    with pytest.raises(ConnectionResetError):
        await socket.send(b"late", text=False)


@pytest.mark.parametrize("frame", [b"\x81\x01a", b"\x89\xfe\x00\x80"], ids=["unmasked", "long ping"])
async def test_invalid_frame_closes_with_a_protocol_error(frame: bytes) -> None:
    socket, line = connected()
    socket.data_received(frame + b"more")
    assert bytes(line.written) == b"\x88\x02\x03\xea"
    await socket.wait_closed()


@pytest.mark.parametrize("acknowledged", [True, False])
async def test_close_waits_briefly_for_the_client(acknowledged: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(websocket, "_CLOSE_SECONDS", 3600 if acknowledged else 0)
    socket, line = connected()
    closing = asyncio.ensure_future(socket.close())
    await asyncio.sleep(0)
    assert bytes(line.written) == CLOSE
    if acknowledged:
        socket.data_received(masked(8, b"\x03\xe8"))
    await closing
    assert bytes(line.written) == CLOSE and line.closing


async def test_client_that_never_reads_is_disconnected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backpressure, "STALLED_SECONDS", 0.01)
    socket, line = connected()
    socket.pause_writing()

    with pytest.raises(ConnectionResetError):
        await socket.send(b"a", text=False)

    assert line.closing


@pytest.mark.parametrize(
    ("payload", "returned"), [(b"", CLOSE), (b"\x03\xe9", b"\x88\x02\x03\xe9"), (b"\x03\xe9bye", b"\x88\x02\x03\xe9")]
)
async def test_status_of_the_client_is_returned_when_it_closes(payload: bytes, returned: bytes) -> None:
    socket, line = connected()

    socket.data_received(masked(8, payload))

    assert bytes(line.written) == returned
    await socket.wait_closed()

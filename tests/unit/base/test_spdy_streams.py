"""Tests for SPDY connections: upgrade, rejected upgrades, streams and frames."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from nodeagent.base import spdy_streams
from nodeagent.base.spdy import Frame, Kind, Reader, Writer
from nodeagent.base.spdy_streams import Disconnected, SpdyConnection, SpdyStreams, UpgradeFailed, upgrade

ACCEPTED = b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: SPDY/3.1\r\nX-Stream-Protocol-Version: v4\r\n\r\n"


class Peer:
    """Writer of a connection: records the data, or fails."""

    def __init__(self, error: Exception | None = None) -> None:
        self.sent, self.closed, self.error = b"", False, error

    def write(self, data: bytes) -> None:
        self.sent += data

    async def drain(self) -> None:
        if self.error is not None:
            raise self.error

    def close(self) -> None:
        self.closed = True


def reader_of(data: bytes, *, ends: bool = True) -> asyncio.StreamReader:
    reader = asyncio.StreamReader()
    reader.feed_data(data)
    if ends:
        reader.feed_eof()
    return reader


async def upgraded(response: bytes, peer: Peer | None = None, *, ends: bool = True) -> SpdyConnection:
    writer: Any = peer or Peer()
    return await upgrade(reader_of(response, ends=ends), writer, ["POST /exec HTTP/1.1"], ["v4", "v1"], "the runtime")


async def test_upgrade_offers_the_protocols_and_returns_the_selected_one() -> None:
    peer = Peer()

    connection = await upgraded(ACCEPTED + b"frame", peer)

    assert connection.protocol == "v4"
    assert await connection.reader.read() == b"frame"
    assert peer.sent.decode().split("\r\n") == [
        "POST /exec HTTP/1.1",
        "Connection: Upgrade",
        "Upgrade: SPDY/3.1",
        "X-Stream-Protocol-Version: v4",
        "X-Stream-Protocol-Version: v1",
        "Content-Length: 0",
        "",
        "",
    ]
    assert not peer.closed


@pytest.mark.parametrize(
    ("response", "status", "text"),
    [
        (b"HTTP/1.1 404 Not Found\r\n\r\nno such container\n", 404, "unable to upgrade connection: no such container"),
        (b"HTTP/1.1 307 Moved\r\nLocation: /x\r\n\r\n", 307, "unable to upgrade connection: "),
        (ACCEPTED.replace(b"SPDY/3.1", b"websocket"), 500, "unable to upgrade: missing upgrade headers in response"),
        (b"HTTP/1.1 101\r\n\r\n", 500, "unable to upgrade: missing upgrade headers in response"),
        (b"HTTP/1.1\r\n\r\n", 502, "the runtime sent a response that is not HTTP"),
        (b"HTTP/2 101 x\r\n\r\n", 502, "the runtime sent a response that is not HTTP"),
        (b"HTTP/1.1 999 x\r\n\r\n", 502, "the runtime sent a response that is not HTTP"),
        (b"HTTP/1.1 101 Switching", 502, "the runtime sent no valid response"),
        (b"", 502, "the runtime sent no valid response"),
    ],
)
async def test_rejected_upgrade_closes_the_connection(response: bytes, status: int, text: str) -> None:
    peer = Peer()

    with pytest.raises(UpgradeFailed) as raised:
        await upgraded(response, peer)

    assert (raised.value.status, str(raised.value)) == (status, text)
    assert peer.closed


async def test_missing_response_times_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spdy_streams, "HEAD_SECONDS", 0.0)

    with pytest.raises(UpgradeFailed, match="the runtime did not respond in time") as raised:
        await upgraded(b"", ends=False)
    assert raised.value.status == 504


async def test_streams_have_odd_numbers_and_pings_are_returned() -> None:
    peer: Any = Peer()
    frames = Writer()
    received = frames.ping(b"\0\0\0\7") + frames.syn_reply(1) + frames.data(1, b"out") + frames.data(1, b"", fin=True)
    streams = SpdyStreams(SpdyConnection(reader_of(received), peer, "v4"))

    assert [await streams.open({"streamtype": name}) for name in ("error", "stdin")] == [1, 3]
    await streams.send(3, b"in", fin=True)
    found = [frame async for frame in streams.frames()]

    assert found == [Frame(Kind.DATA, 1, b"out"), Frame(Kind.DATA, 1, fin=True)]
    sent = list(Reader().feed(peer.sent))
    assert [(frame.kind, frame.data) for frame in sent[2:]] == [(Kind.DATA, b"in"), (Kind.PING, b"\0\0\0\7")]
    assert sent[2].fin


async def test_closed_connection_is_reported_by_sends_and_ends_the_frames() -> None:
    peer: Any = Peer(ConnectionResetError("reset"))
    streams = SpdyStreams(SpdyConnection(reader_of(Writer().ping(b"\0\0\0\7")), peer, ""))

    with pytest.raises(Disconnected, match="reset"):
        await streams.open({})
    assert [frame async for frame in streams.frames()] == []

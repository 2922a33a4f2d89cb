"""Tests for SPDY/3.1 frames."""

from __future__ import annotations

import struct
import zlib

import pytest

from nodeagent.base import spdy
from nodeagent.base.spdy import Frame, Kind, Reader, SpdyError, Writer


def test_compression_dictionary_is_that_of_spdy_3_1() -> None:
    assert zlib.adler32(spdy.DICTIONARY) == 0xE3C6A7C2  # Checksum by which zlib identifies the dictionary.


def test_frames_fed_byte_by_byte_are_decoded() -> None:
    writer, reader = Writer(), Reader()
    sent = writer.syn_stream(1, {"streamtype": "stdin"}) + writer.data(1, b"hello") + writer.syn_reply(3)
    sent += writer.syn_stream(5, {"streamtype": "error", "port": "80"}) + writer.data(1, b"", fin=True)
    sent += writer.ping(b"\0\0\0\7") + writer.goaway(5)

    frames = [frame for byte in sent for frame in reader.feed(bytes((byte,)))]

    assert frames == [
        Frame(Kind.SYN_STREAM, 1, headers={"streamtype": "stdin"}),
        Frame(Kind.DATA, 1, b"hello"),
        Frame(Kind.SYN_REPLY, 3),
        Frame(Kind.SYN_STREAM, 5, headers={"streamtype": "error", "port": "80"}),
        Frame(Kind.DATA, 1, fin=True),
        Frame(Kind.PING, data=b"\0\0\0\7"),
        Frame(Kind.GOAWAY, data=struct.pack("!II", 5, 0)),
    ]


def control(kind: int, body: bytes, version: int = 3) -> bytes:
    return struct.pack("!II", 1 << 31 | version << 16 | kind, len(body)) + body


def packed(text: bytes) -> bytes:
    deflate = zlib.compressobj(zdict=spdy.DICTIONARY)
    return deflate.compress(text) + deflate.flush(zlib.Z_SYNC_FLUSH)


@pytest.mark.parametrize(
    ("data", "failure"),
    [
        (control(1, b"", version=2), "version 2"),
        (control(1, b"\0\0"), "without a stream ID"),
        (control(2, b"\0\0\0"), "without a stream ID"),
        (control(2, b"\0\0\0\1"), "invalid headers"),
        (control(2, b"\0\0\0\1" + b"no zlib"), "invalid headers"),
        (control(2, b"\0\0\0\1" + packed(b"\xff\xff\xff\xff")), "invalid headers"),
        (control(2, b"\0\0\0\1" + packed(b"\0" * 1_000_000)), "too many headers"),
        (struct.pack("!II", 1, 0xFFFFFF), "is too large"),
        (struct.pack("!II", 1 << 31 | 3 << 16 | 1, 0xFFFFFF), "is too large"),
    ],
)
def test_invalid_or_excessive_data_is_rejected(data: bytes, failure: str) -> None:
    with pytest.raises(SpdyError, match=failure):
        list(Reader().feed(data))

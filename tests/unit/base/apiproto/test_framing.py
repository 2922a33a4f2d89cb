"""Tests for the frames of a protobuf watch stream."""

from __future__ import annotations

import pytest

from nodeagent.base.apiproto.errors import ProtobufError
from nodeagent.base.apiproto.framing import FrameSplitter, unwrap_event, varint, wrap_event


@pytest.mark.parametrize("size", [1, 3, 1000])
def test_frames_are_split_wherever_the_data_is(size: int) -> None:
    stream = wrap_event("ADDED", b"one") + wrap_event("DELETED", b"") + wrap_event("MODIFIED", b"x" * 200)
    splitter = FrameSplitter()

    frames = [frame for at in range(0, len(stream), size) for frame in splitter.feed(stream[at : at + size])]

    assert [unwrap_event(frame) for frame in frames] == [("ADDED", b"one"), ("DELETED", b""), ("MODIFIED", b"x" * 200)]


def test_length_of_a_frame_is_limited() -> None:
    assert FrameSplitter(3).feed(b"\0\0\0\3abc") == [b"abc"]
    with pytest.raises(ProtobufError, match="watch frame of 4 bytes is over the limit of 3"):
        FrameSplitter(3).feed(b"\0\0\0\4")


@pytest.mark.parametrize(
    ("value", "encoded"), [(0, "00"), (127, "7f"), (128, "8001"), (300, "ac02"), (-1, "ff" * 9 + "01")]
)
def test_integers_are_encoded_in_groups_of_seven_bits(value: int, encoded: str) -> None:
    assert varint(value).hex() == encoded


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (b"\x0a", "unexpected EOF"),
        (b"\x0a\x05ADDE", "unexpected EOF"),
        (b"\x08\xff", "unexpected EOF"),
        (b"\x0b", "illegal wire type 3"),
        (b"\x08" + b"\xff" * 10, "varint over 64 bits"),
        (b"\x0a\x01\xff", "text is not UTF-8"),
    ],
)
def test_malformed_message_is_an_error(data: bytes, problem: str) -> None:
    with pytest.raises(ProtobufError, match=problem):
        unwrap_event(data)


@pytest.mark.parametrize("skipped", [b"\x18\x80\x01", b"\x19" + b"\0" * 8, b"\x1d" + b"\0" * 4, b"\x1a\x00", b""])
def test_other_fields_are_skipped(skipped: bytes) -> None:
    event = wrap_event("ADDED", b"x" * 128)[4:]

    assert unwrap_event(skipped + event) == unwrap_event(event + skipped) == ("ADDED", b"x" * 128)

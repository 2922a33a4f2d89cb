"""Wire format of protobuf objects: the envelope that names the kind, and the frames of a watch stream.

Custom, since the prefix and the frames are not protobuf messages; the messages in them are decoded by ``protobuf``.
"""

from __future__ import annotations

from typing import NamedTuple

from nodeagent.base.apiproto.errors import ProtobufError

MAGIC = b"k8s\x00"
MAX_FRAME_BYTES = 16 * 1024 * 1024
_LENGTH_BYTES = 4
_SHOWN_BYTES = 64


class Envelope(NamedTuple):
    api_version: str
    kind: str
    raw: bytes
    """The encoded object."""


def wrap(envelope: Envelope) -> bytes:
    """Return the encoded *envelope*; the two trailing fields are written empty, as upstream does."""
    type_meta = field(1, envelope.api_version.encode()) + field(2, envelope.kind.encode())
    return b"".join((MAGIC, field(1, type_meta), field(2, envelope.raw), b"\x1a\x00\x22\x00"))


def unwrap(data: bytes) -> Envelope:
    """Return the envelope that *data* encodes.

    :raises ProtobufError: *data* is not an envelope, or its content is compressed.
    """
    if not data:
        raise ProtobufError("empty data (<empty>)")
    if not data.startswith(MAGIC):
        raise ProtobufError(
            "provided data does not appear to be a protobuf message, "
            f"expected prefix [107 56 115 0] ({data[:_SHOWN_BYTES].hex()})"
        )
    if len(data) == len(MAGIC):
        raise ProtobufError(f"empty body ({data.hex()})")
    fields = _fields(data, len(MAGIC))
    if fields.get(3):
        raise ProtobufError(f"content encoding {fields[3][:_SHOWN_BYTES]!r} is not supported")
    type_meta = _fields(fields.get(1, b""))
    return Envelope(_text(type_meta.get(1, b"")), _text(type_meta.get(2, b"")), fields.get(2, b""))


def wrap_event(event_type: str, envelope: bytes) -> bytes:
    """Return one frame of a watch stream."""
    event = field(1, event_type.encode()) + field(2, field(1, envelope))
    return len(event).to_bytes(_LENGTH_BYTES, "big") + event


def unwrap_event(event: bytes) -> tuple[str, bytes]:
    """Return type and envelope of a frame's content."""
    fields = _fields(event)
    return _text(fields.get(1, b"")), _fields(fields.get(2, b"")).get(1, b"")


class FrameSplitter:
    """Splitter of a byte stream into frames."""

    def __init__(self, max_frame_bytes: int = MAX_FRAME_BYTES) -> None:
        self._max = max_frame_bytes
        self._buffer = bytearray()

    def feed(self, data: bytes) -> list[bytes]:
        """Return the frames that *data* completes.

        :raises ProtobufError: the length of a frame exceeds the limit; the stream cannot be read further.
        """
        self._buffer += data
        frames, start = [], 0
        while len(self._buffer) - start >= _LENGTH_BYTES:
            body = start + _LENGTH_BYTES
            length = int.from_bytes(self._buffer[start:body], "big")
            if length > self._max:
                raise ProtobufError(f"watch frame of {length} bytes is over the limit of {self._max}")
            if len(self._buffer) < body + length:
                break
            frames.append(bytes(self._buffer[body : body + length]))
            start = body + length
        del self._buffer[:start]
        return frames


def field(number: int, content: bytes) -> bytes:
    """Return one length-delimited field of a message; *number* is below 16."""
    return bytes((number << 3 | 2,)) + varint(len(content)) + content


def varint(value: int) -> bytes:
    """Return *value* as a varint; a negative one is encoded in 64 bits."""
    value &= 2**64 - 1
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def _fields(data: bytes, position: int = 0) -> dict[int, bytes]:
    """Return the length-delimited fields of a message by number, the last of each; other fields are skipped."""
    found = {}
    end = len(data)
    while position < end:
        key, position = _read_varint(data, position)
        wire_type = key & 7
        if wire_type == 2:
            length, position = _read_varint(data, position)
            if position + length > end:
                raise ProtobufError(f"unexpected EOF ({data[:_SHOWN_BYTES].hex()})")
            found[key >> 3] = data[position : position + length]
            position += length
        elif wire_type == 0:
            _, position = _read_varint(data, position)
        elif wire_type in (1, 5):
            position += 8 if wire_type == 1 else 4
        else:
            raise ProtobufError(f"illegal wire type {wire_type} ({data[:_SHOWN_BYTES].hex()})")
    return found


def _read_varint(data: bytes, position: int) -> tuple[int, int]:
    value = 0
    for shift in range(0, 70, 7):
        if position >= len(data):
            raise ProtobufError(f"unexpected EOF ({data[:_SHOWN_BYTES].hex()})")
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position
    raise ProtobufError(f"varint over 64 bits ({data[:_SHOWN_BYTES].hex()})")


def _text(value: bytes) -> str:
    try:
        return value.decode()
    except UnicodeDecodeError as error:
        raise ProtobufError(f"text is not UTF-8: {error.reason}") from error

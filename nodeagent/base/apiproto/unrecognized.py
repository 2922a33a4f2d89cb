"""Unrecognized protobuf fields: those of a release later than the definitions.

In the JSON value of a message they are fields called ``#<number>``, with the base64 text of their encoding, so that an
object that is written back retains them.
"""

from __future__ import annotations

import base64
from enum import IntEnum
from typing import Any

from nodeagent.base.apiproto.framing import varint

PREFIX = "#"


class WireType(IntEnum):
    """Encoding of a field's value."""

    VARINT = 0
    FIXED64 = 1
    LENGTH_DELIMITED = 2
    START_GROUP = 3
    END_GROUP = 4
    FIXED32 = 5


def has_unrecognized(message: Any) -> bool:
    """Return whether *message*, or a message in it, has unrecognized fields."""
    known = type(message)()
    known.CopyFrom(message)
    known.DiscardUnknownFields()
    return bool(known.ByteSize() != message.ByteSize())


def read_unrecognized(message: Any) -> dict[str, str]:
    """Return the unrecognized fields of *message* by name, without those of the messages in it."""
    from google.protobuf.unknown_fields import UnknownFieldSet

    found: dict[int, bytes] = {}
    for field in UnknownFieldSet(message):  # type: ignore[attr-defined]  # The stubs lack the iterator.
        found[field.field_number] = found.get(field.field_number, b"") + _encoded(field)
    return {f"{PREFIX}{number}": base64.b64encode(data).decode() for number, data in found.items()}


def write_unrecognized(message: Any, value: Any) -> None:
    """Add a field from :func:`read_unrecognized` to *message*.

    :raises ValueError: *value* is not such a field.
    """
    from google.protobuf.message import DecodeError

    try:
        message.MergeFromString(base64.b64decode(value, validate=True))
    except DecodeError as error:
        raise ValueError(str(error)) from error


def _encoded(field: Any) -> bytes:
    number, wire_type, data = field.field_number, field.wire_type, field.data
    tag = varint(number << 3 | wire_type)
    match wire_type:
        case WireType.VARINT:
            return tag + varint(data)
        case WireType.LENGTH_DELIMITED:
            return tag + varint(len(data)) + bytes(data)
        case WireType.START_GROUP:
            return tag + b"".join(map(_encoded, data)) + varint(number << 3 | WireType.END_GROUP)
        case WireType.FIXED64:
            return tag + int(data).to_bytes(8, "little")
        case _:
            return tag + int(data).to_bytes(4, "little")

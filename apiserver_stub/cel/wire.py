"""The protobuf wire format of compiled expressions, whose messages have no Python modules. No I/O."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

Message = dict[int, list[Any]]
"""Values of a serialized message by field number."""
_ANY_VALUE = 2


def fields(data: bytes) -> Message:
    """Return the fields of the serialized message *data*."""
    found: Message = {}
    position = 0
    while position < len(data):
        tag, position = _varint(data, position)
        form = tag & 7
        value: Any
        if form == 0:
            value, position = _varint(data, position)
        else:
            size = {1: 8, 5: 4}.get(form, 0)
            if form == 2:
                size, position = _varint(data, position)
            value, position = data[position : position + size], position + size
        found.setdefault(tag >> 3, []).append(value)
    return found


def packed_content(serialized: bytes) -> Message:
    """Return the fields of the message in the ``google.protobuf.Any`` *serialized*."""
    return fields(fields(serialized)[_ANY_VALUE][0])


def numbers(packed: bytes | int) -> Iterator[int]:
    """Yield the values of a repeated number."""
    if isinstance(packed, int):
        yield packed
        return
    position = 0
    while position < len(packed):
        index, position = _varint(packed, position)
        yield index


def _varint(data: bytes, position: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return value, position


def encode(message: Message) -> bytes:
    """Return the serialized form of *message*, whose values are non-negative numbers and bytes."""
    data = bytearray()
    for number, values in message.items():
        for value in values:
            if isinstance(value, int):
                data += _encoded(number << 3) + _encoded(value)
            else:
                data += _encoded(number << 3 | 2) + _encoded(len(value)) + value
    return bytes(data)


def _encoded(value: int) -> bytes:
    data = bytearray()
    while value > 0x7F:
        data.append(value & 0x7F | 0x80)
        value >>= 7
    data.append(value)
    return bytes(data)

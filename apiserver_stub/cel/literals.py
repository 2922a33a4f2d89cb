"""Errors in the literals of a compiled expression, which the type checker accepts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

_Message = dict[int, list[Any]]
"""Values of a serialized message by field number."""
_ANY_VALUE = 2
_TYPES, _ROOT = 3, 4
_KEY, _VALUE = 1, 2
_ID, _CONSTANT, _SELECT, _CALL, _LIST, _STRUCT, _COMPREHENSION = 2, 3, 5, 6, 7, 8, 9
_TEXT = 6
_CALL_TARGET, _CALL_NAME, _CALL_ARGUMENTS = 1, 2, 3
_ENTRIES, _ENTRY_KEY, _ENTRY_VALUE, _STRUCT_NAME = 2, 3, 4, 1
_ELEMENTS, _OPTIONAL_INDICES = 1, 2
_BELOW = {_SELECT: (1,), _COMPREHENSION: (2, 4, 5, 6, 7)}
_LIST_TYPE, _MAP_TYPE = 6, 7
_DYN = b"\x0a\x00"
_CONVERSIONS = ("duration", "timestamp")
_PATTERNS = {"matches": 0, "find": 0, "findAll": 0}


class Literals:
    """The literals of an expression, given as ``cel.expr.CheckedExpr`` in ``google.protobuf.Any``."""

    def __init__(self, serialized: bytes) -> None:
        checked = _fields(_fields(serialized)[_ANY_VALUE][0])
        entries = (_fields(entry) for entry in checked.get(_TYPES, ()))
        self._types: dict[int, bytes] = {entry[_KEY][0]: entry.get(_VALUE, [_DYN])[0] for entry in entries}
        self._expressions = list(_walk(checked[_ROOT][0]))

    def mixed(self) -> bool:
        """Return whether a list or map has items of different types."""
        return any(not self._is_uniform(items) for node in self._expressions for items in _collections(node))

    def conversions(self) -> Iterator[tuple[str, str]]:
        """Yield the functions that convert a literal text or match a literal pattern, with that text."""
        for node in self._expressions:
            for call in map(_fields, node.get(_CALL, ())):
                name = call[_CALL_NAME][0].decode()
                arguments = call.get(_CALL_ARGUMENTS, [])
                if (name in _CONVERSIONS or name in _PATTERNS) and arguments:
                    text = _constant_text(_fields(arguments[0]))
                    if text is not None and (name in _CONVERSIONS) == (_CALL_TARGET not in call):
                        yield name, text

    def _is_uniform(self, items: Sequence[bytes]) -> bool:
        types = [self._types.get(_fields(item).get(_ID, [0])[0], _DYN) for item in items]
        return all(_is_assignable(types[0], other) for other in types[1:])


def _is_assignable(one: bytes, other: bytes) -> bool:
    if one == other:
        return True
    for form in (_LIST_TYPE, _MAP_TYPE):  # an empty literal has items of any type
        found = [_fields(kind).get(form) for kind in (one, other)]
        if None not in found:
            return any(_DYN in items[0] or not items[0] for items in found if items)
    return False


def _collections(node: _Message) -> Iterator[Sequence[bytes]]:
    for literal in map(_fields, node.get(_LIST, ())):
        optional = {index for packed in literal.get(_OPTIONAL_INDICES, ()) for index in _indices(packed)}
        yield [item for index, item in enumerate(literal.get(_ELEMENTS, ())) if index not in optional]
    for literal in map(_fields, node.get(_STRUCT, ())):
        if literal.get(_STRUCT_NAME, [b""])[0]:
            continue
        entries = [_fields(entry) for entry in literal.get(_ENTRIES, ())]
        for field in (_ENTRY_KEY, _ENTRY_VALUE):
            yield [item for entry in entries for item in entry.get(field, ())]


def _constant_text(node: _Message) -> str | None:
    for constant in map(_fields, node.get(_CONSTANT, ())):
        if _TEXT in constant:
            return str(constant[_TEXT][0].decode())
    return None


def _walk(data: bytes) -> Iterator[_Message]:
    node = _fields(data)
    yield node
    for call in map(_fields, node.get(_CALL, ())):
        for field in (_CALL_TARGET, _CALL_ARGUMENTS):
            for below in call.get(field, ()):
                yield from _walk(below)
    for items in _collections(node):
        for below in items:
            yield from _walk(below)
    for form, fields in _BELOW.items():
        for inner in map(_fields, node.get(form, ())):
            for field in fields:
                for below in inner.get(field, ()):
                    yield from _walk(below)


# The protobuf wire format


def _fields(data: bytes) -> _Message:
    found: _Message = {}
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


def _indices(packed: bytes | int) -> Iterator[int]:
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

"""Errors in the literals of a compiled expression, which the type checker accepts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from apiserver_stub.cel.wire import Message, fields, numbers, packed_content

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
        checked = packed_content(serialized)
        entries = (fields(entry) for entry in checked.get(_TYPES, ()))
        self._types: dict[int, bytes] = {entry[_KEY][0]: entry.get(_VALUE, [_DYN])[0] for entry in entries}
        self._expressions = list(_walk(checked[_ROOT][0]))

    def mixed(self) -> bool:
        """Return whether a list or map has items of different types."""
        return any(not self._is_uniform(items) for node in self._expressions for items in _collections(node))

    def conversions(self) -> Iterator[tuple[str, str]]:
        """Yield the functions that convert a literal text or match a literal pattern, with that text."""
        for node in self._expressions:
            for call in map(fields, node.get(_CALL, ())):
                name = call[_CALL_NAME][0].decode()
                arguments = call.get(_CALL_ARGUMENTS, [])
                if (name in _CONVERSIONS or name in _PATTERNS) and arguments:
                    text = _constant_text(fields(arguments[0]))
                    if text is not None and (name in _CONVERSIONS) == (_CALL_TARGET not in call):
                        yield name, text

    def _is_uniform(self, items: Sequence[bytes]) -> bool:
        types = [self._types.get(fields(item).get(_ID, [0])[0], _DYN) for item in items]
        return all(_is_assignable(types[0], other) for other in types[1:])


def _is_assignable(one: bytes, other: bytes) -> bool:
    if one == other:
        return True
    for form in (_LIST_TYPE, _MAP_TYPE):  # an empty literal has items of any type
        found = [fields(kind).get(form) for kind in (one, other)]
        if None not in found:
            return any(_DYN in items[0] for items in found if items)
    return False


def _collections(node: Message) -> Iterator[Sequence[bytes]]:
    for literal in map(fields, node.get(_LIST, ())):
        optional = {index for packed in literal.get(_OPTIONAL_INDICES, ()) for index in numbers(packed)}
        yield [item for index, item in enumerate(literal.get(_ELEMENTS, ())) if index not in optional]
    for literal in map(fields, node.get(_STRUCT, ())):
        if literal.get(_STRUCT_NAME, [b""])[0]:
            continue
        entries = [fields(entry) for entry in literal.get(_ENTRIES, ())]
        for field in (_ENTRY_KEY, _ENTRY_VALUE):
            yield [item for entry in entries for item in entry.get(field, ())]


def _constant_text(node: Message) -> str | None:
    for constant in map(fields, node.get(_CONSTANT, ())):
        if _TEXT in constant:
            return str(constant[_TEXT][0].decode())
    return None


def _walk(data: bytes) -> Iterator[Message]:
    node = fields(data)
    yield node
    for call in map(fields, node.get(_CALL, ())):
        for field in (_CALL_TARGET, _CALL_ARGUMENTS):
            for below in call.get(field, ()):
                yield from _walk(below)
    for items in _collections(node):
        for below in items:
            yield from _walk(below)
    for form, parts in _BELOW.items():
        for inner in map(fields, node.get(form, ())):
            for part in parts:
                for below in inner.get(part, ()):
                    yield from _walk(below)

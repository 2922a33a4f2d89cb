"""Mutations in CEL: literals of the types ``Object`` and ``JSONPatch``, which become maps. No I/O.

The types exist only in expressions of mutating policies; ``Object.spec`` is the type of the field ``spec``, and so on.
"""

from __future__ import annotations

from collections.abc import Iterator

from apiserver_stub.cel.signatures import Overload
from apiserver_stub.cel.wire import Message, encode, fields

OBJECT, JSON_PATCH = "Object", "JSONPatch"
FUNCTIONS = (
    Overload(
        "jsonpatch.escapeKey",
        ("string",),
        "string",
        lambda text: text.replace("~", "~0").replace("/", "~1"),
        member=False,
    ),
)

# Field numbers of google.protobuf.Any, cel.expr.ParsedExpr, cel.expr.Expr and the messages in it
_CONTENT, _ROOT = 2, 2
_ID, _CONSTANT, _IDENTIFIER, _STRUCT, _COMPREHENSION = 2, 3, 4, 8, 9
_NAME, _ENTRIES, _ENTRY_FIELD, _ENTRY_KEY, _ENTRY_VALUE = 1, 2, 2, 3, 4
_TEXT = 6
_PARTS = {5: (1,), 6: (1, 3), 7: (1,), 9: (2, 4, 5, 6, 7)}
"""Fields with expressions, by the form of the expression."""
_VARIABLES = (1, 3, 8)
"""Fields of a comprehension with names of variables."""
_FIRST_ID = 1 << 41
"""Identifier of the first added node; those of the parser are much smaller."""


def with_maps(serialized: bytes) -> bytes:
    """Return a parsed expression whose literals of typed objects are maps.

    :param serialized: a ``cel.expr.ParsedExpr`` in ``google.protobuf.Any``.
    """
    container = fields(serialized)
    parsed = fields(container[_CONTENT][0])
    root = _Rewriter().rewritten(parsed[_ROOT][0])
    return encode({**container, _CONTENT: [encode({**parsed, _ROOT: [root]})]})


def root_of(serialized: bytes) -> Message:
    """Return the expression of a parsed expression."""
    return fields(fields(fields(serialized)[_CONTENT][0])[_ROOT][0])


def type_names(node: Message) -> Iterator[str]:
    """Yield the names of the types of object literals in an expression."""
    for literal in map(fields, node.get(_STRUCT, ())):
        if name := literal.get(_NAME, [b""])[0].decode():
            yield name
    for below, _ in _below(node):
        yield from type_names(fields(below))


def free_names(node: Message, known: frozenset[str] = frozenset()) -> Iterator[str]:
    """Yield the names of variables in an expression that it does not define."""
    for identifier in map(fields, node.get(_IDENTIFIER, ())):
        name = identifier[1][0].decode()
        if name not in known:
            yield name
    for below, defined in _below(node):
        yield from free_names(fields(below), known | defined)


def is_literal_of(node: Message, name: str) -> bool:
    """Return whether an expression is a literal of the type *name*."""
    return any(fields(literal).get(_NAME, [b""])[0] == name.encode() for literal in node.get(_STRUCT, ()))


def _below(node: Message) -> Iterator[tuple[bytes, frozenset[str]]]:
    """Yield the expressions in an expression, with the variables that it defines for them."""
    for form, parts in _PARTS.items():
        for inner in map(fields, node.get(form, ())):
            names = _VARIABLES if form == _COMPREHENSION else ()
            defined = frozenset(name.decode() for field in names for name in inner.get(field, ()))
            for part in parts:
                for below in inner.get(part, ()):
                    yield below, defined
    for literal in map(fields, node.get(_STRUCT, ())):
        for entry in map(fields, literal.get(_ENTRIES, ())):
            for part in (_ENTRY_KEY, _ENTRY_VALUE):
                for below in entry.get(part, ()):
                    yield below, frozenset()


class _Rewriter:
    def __init__(self) -> None:
        self._next_id = _FIRST_ID

    def rewritten(self, data: bytes) -> bytes:
        """Return an expression with maps instead of typed objects."""
        node = fields(data)
        for form, parts in _PARTS.items():
            if form in node:
                node[form] = [encode(self._inner(fields(inner), parts)) for inner in node[form]]
        if _STRUCT in node:
            node[_STRUCT] = [encode(self._map(fields(literal))) for literal in node[_STRUCT]]
        return encode(node)

    def _inner(self, inner: Message, parts: tuple[int, ...]) -> Message:
        rewritten = {part: [self.rewritten(below) for below in inner[part]] for part in parts if part in inner}
        return inner | rewritten

    def _map(self, literal: Message) -> Message:
        entries = []
        for entry in map(fields, literal.get(_ENTRIES, ())):
            found = self._inner(entry, (_ENTRY_KEY, _ENTRY_VALUE))
            if _ENTRY_FIELD in found:
                found[_ENTRY_KEY] = [self._text(found.pop(_ENTRY_FIELD)[0])]
            entries.append(encode(found))
        return {**{number: value for number, value in literal.items() if number != _NAME}, _ENTRIES: entries}

    def _text(self, text: bytes) -> bytes:
        self._next_id += 1
        return encode({_ID: [self._next_id], _CONSTANT: [encode({_TEXT: [text]})]})

"""Instrumentation of compiled expressions, so that their evaluation is charged and ends at a limit. No I/O.

The library evaluates without a cost limit. Therefore each loop requests permission for its next iteration, and
functions whose time depends on the sizes of their arguments charge for them. Branches that are not evaluated within a
loop are charged too.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from apiserver_stub.cel import patterns
from apiserver_stub.cel.budget import charge, permits
from apiserver_stub.cel.signatures import Overload
from apiserver_stub.cel.wire import Message, encode, fields

_PERMITS = "@permits"
_REPLACED = {"contains": "@contains", "matches": "@matches"}
"""Standard functions whose time is not linear in the sizes of their arguments, with the metered functions."""
_LIST_COST, _MAP_COST = 10, 30

# Field numbers of google.protobuf.Any, cel.expr.ParsedExpr, cel.expr.Expr and the messages in it
_CONTENT, _ROOT = 2, 2
_ID, _CONSTANT, _IDENTIFIER, _SELECT, _CALL, _LIST, _STRUCT, _COMPREHENSION = 2, 3, 4, 5, 6, 7, 8, 9
_OPERAND, _ELEMENTS, _ENTRIES, _ENTRY_KEY, _ENTRY_VALUE = 1, 1, 2, 3, 4
_TARGET, _FUNCTION, _ARGUMENTS = 1, 2, 3
_RANGE, _INITIAL, _CONDITION, _STEP, _RESULT = 2, 4, 5, 6, 7
_INT64 = 3
_FREE_CALLS = ("_&&_", "_||_")
_FIRST_ID = 1 << 40
"""Identifier of the first added node; those of the parser are much smaller."""


def instrumented(serialized: bytes) -> tuple[bytes, int]:
    """Return a parsed expression that is metered, and the cost outside of its loops.

    :param serialized: a ``cel.expr.ParsedExpr`` in ``google.protobuf.Any``.
    """
    container = fields(serialized)
    parsed = fields(container[_CONTENT][0])
    root, cost = _Rewriter().expression(parsed[_ROOT][0])
    return encode({**container, _CONTENT: [encode({**parsed, _ROOT: [root]})]}), cost


@dataclass
class _Rewriter:
    next_id: int = field(default=_FIRST_ID)

    def expression(self, data: bytes) -> tuple[bytes, int]:
        """Return the metered expression, and its cost without that of the iterations of loops."""
        node = fields(data)
        for kind, method in (
            (_SELECT, self._select),
            (_CALL, self._call),
            (_LIST, self._list),
            (_STRUCT, self._struct),
            (_COMPREHENSION, self._comprehension),
        ):
            if kind in node:
                rewritten, cost = method(fields(node[kind][0]))
                return encode({**node, kind: [encode(rewritten)]}), cost
        return data, 1 if _IDENTIFIER in node else 0

    def _parts(self, node: Message, *numbers: int) -> tuple[Message, list[int]]:
        """Return *node* with the expressions in the fields *numbers* metered, and their costs."""
        found, costs = dict(node), []
        for number in numbers:
            if number in node:
                parts = [self.expression(part) for part in node[number]]
                found[number] = [part for part, _ in parts]
                costs += [cost for _, cost in parts]
        return found, costs

    def _select(self, select: Message) -> tuple[Message, int]:
        found, costs = self._parts(select, _OPERAND)
        return found, sum(costs) + 1

    def _call(self, call: Message) -> tuple[Message, int]:
        found, costs = self._parts(call, _TARGET, _ARGUMENTS)
        name = call[_FUNCTION][0].decode()
        if name == "_?_:_":
            return found, costs[0] + max(costs[1:])
        if name in _REPLACED and _TARGET in call and len(costs) == 2:
            name = _REPLACED[name]
            found[_FUNCTION] = [name.encode()]
        return found, sum(costs) + (name not in _FREE_CALLS and name not in _COSTS)

    def _list(self, literal: Message) -> tuple[Message, int]:
        found, costs = self._parts(literal, _ELEMENTS)
        return found, sum(costs) + _LIST_COST

    def _struct(self, literal: Message) -> tuple[Message, int]:
        entries, cost = [], _MAP_COST
        for entry in map(fields, literal.get(_ENTRIES, ())):
            found, costs = self._parts(entry, _ENTRY_KEY, _ENTRY_VALUE)
            entries.append(encode(found))
            cost += sum(costs)
        return {**literal, _ENTRIES: entries}, cost

    def _comprehension(self, loop: Message) -> tuple[Message, int]:
        found, around = self._parts(loop, _RANGE, _INITIAL, _RESULT)
        found, inside = self._parts(found, _CONDITION, _STEP)
        permission = self._node({_FUNCTION: [_PERMITS.encode()], _ARGUMENTS: [self._number(max(1, sum(inside)))]})
        condition = self._node({_FUNCTION: [b"_&&_"], _ARGUMENTS: [found[_CONDITION][0], permission]})
        return {**found, _CONDITION: [condition]}, sum(around)

    def _node(self, call: Message) -> bytes:
        self.next_id += 1
        return encode({_ID: [self.next_id], _CALL: [encode(call)]})

    def _number(self, value: int) -> bytes:
        self.next_id += 1
        return encode({_ID: [self.next_id], _CONSTANT: [encode({_INT64: [value]})]})


# Costs of calls by the sizes of their arguments


def _scaled(size: float, factor: float) -> int:
    return math.ceil(size * factor)


def _traversal(*arguments: Any) -> int:
    return _scaled(len(arguments[0]), 0.1)


def _two_traversals(*arguments: Any) -> int:
    return _scaled(len(arguments[0]), 0.2)


def _search(*arguments: Any) -> int:
    return _scaled(len(arguments[0]) + 1, 0.1) * _scaled(len(arguments[1]), 0.25)


def _part(*arguments: Any) -> int:
    return _scaled(len(arguments[0]), 0.1) * _scaled(len(arguments[1]), 0.1)


def _each_item(*arguments: Any) -> int:
    items = arguments[0]
    if isinstance(items, str):
        return _traversal(items)
    return sum(1 + (_scaled(len(item), 0.1) if isinstance(item, str | bytes) else 0) for item in items)


def _joined(texts: list[str], separator: str = "") -> int:
    return _scaled(sum(map(len, texts)) + len(separator) * max(0, len(texts) - 1), 0.1)


def _pairs(*arguments: Any) -> int:
    return len(arguments[0]) * len(arguments[1]) + 1


_COSTS: Mapping[str, Callable[..., int]] = {
    "check": lambda *_: 350_000,
    **dict.fromkeys(("isSorted", "sum", "max", "min", "indexOf", "lastIndexOf"), _each_item),
    **dict.fromkeys(("lowerAscii", "upperAscii", "substring", "trim", "url", "format"), _traversal),
    **dict.fromkeys(("replace", "split"), _two_traversals),
    **dict.fromkeys(("sets.contains", "sets.intersects"), _pairs),
    "sets.equivalent": lambda *arguments: 2 * _pairs(*arguments),
    "join": _joined,
    **dict.fromkeys(("find", "findAll"), _search),
    "@contains": _part,
    "@matches": _search,
}


def metered(overloads: Iterable[Overload]) -> list[Overload]:
    """Return *overloads* for the evaluation of metered expressions, and the functions that these use."""
    own = (
        Overload(_PERMITS, ("int",), "bool", permits, member=False),
        Overload("@contains", ("string", "string"), "bool", lambda text, part: part in text),
        Overload("@matches", ("string", "string"), "bool", patterns.matches),
    )
    return [_charged(overload) for overload in (*overloads, *own)]


def _charged(overload: Overload) -> Overload:
    cost, run = _COSTS.get(overload.name), overload.implementation
    if cost is None:
        return overload

    def implementation(*arguments: Any) -> Any:
        charge(cost(*arguments))
        return run(*arguments)

    return Overload(overload.name, overload.parameters, overload.result, implementation, overload.member)

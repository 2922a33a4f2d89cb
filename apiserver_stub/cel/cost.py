"""Estimates of the cost of a compiled expression, in the units of kube-apiserver. No I/O.

A unit is about 50 ns there. The estimates decide which expressions are accepted, so they are those of cel-go and of the
libraries of Kubernetes, to the unit.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from apiserver_stub.cel.cost_bounds import (
    ANY,
    ITEMS,
    KEYS,
    NONE,
    ONE,
    VALUES,
    CallCost,
    Path,
    Range,
    Shape,
    Value,
    exactly,
    total,
)
from apiserver_stub.cel.function_costs import LIBRARY, STANDARD
from apiserver_stub.cel.wire import Message, fields, packed_content

_LIST_COST, _MAP_COST, _MESSAGE_COST = 10, 30, 40

# Field numbers of cel.expr.CheckedExpr and the messages in it
_REFERENCES, _TYPES, _ROOT = 2, 3, 4
_KEY, _VALUE, _OVERLOADS = 1, 2, 3
_ID, _CONSTANT, _IDENTIFIER, _SELECT, _CALL, _LIST, _STRUCT, _COMPREHENSION = 2, 3, 4, 5, 6, 7, 8, 9
_TEXT, _BYTES, _INT = 6, 7, 3
_PRIMITIVE, _WELL_KNOWN, _LIST_TYPE, _MAP_TYPE, _MESSAGE_TYPE, _PARAMETER_TYPE = 3, 5, 6, 7, 9, 10
_PRIMITIVES = {1: "bool", 2: "int", 3: "uint", 4: "double", 5: "string", 6: "bytes"}
_WELL_KNOWN_TYPES = {2: "timestamp", 3: "duration"}
_SCALARS = frozenset(["bool", "int", "uint", "double", "timestamp", "duration"])
_SELECTED = frozenset(["map", "object", "parameter"])
_ACCUMULATORS = ("__result__", "@result")


def estimated_cost(serialized: bytes, shape_of: Callable[[Path], Shape | None]) -> int:
    """Return the greatest cost of an expression, given as ``cel.expr.CheckedExpr`` in ``google.protobuf.Any``.

    :param shape_of: describes the values at a path that starts with a variable; ``None`` if nothing is known.
    """
    checked = packed_content(serialized)
    return _Estimator(checked, shape_of).cost(checked[_ROOT][0])[0].high


@dataclass
class _Estimator:
    checked: Message
    shape_of: Callable[[Path], Shape | None]
    overloads: Mapping[int, Sequence[str]] = field(init=False)
    types: Mapping[int, bytes] = field(init=False)
    variables: dict[str, list[Value]] = field(init=False, default_factory=dict)
    """Iteration variables, the innermost one last."""

    def __post_init__(self) -> None:
        references = [fields(entry) for entry in self.checked.get(_REFERENCES, ())]
        self.overloads = {
            entry.get(_KEY, [0])[0]: [name.decode() for name in fields(entry[_VALUE][0]).get(_OVERLOADS, ())]
            for entry in references
            if _VALUE in entry
        }
        entries = [fields(entry) for entry in self.checked.get(_TYPES, ())]
        self.types = {entry.get(_KEY, [0])[0]: entry[_VALUE][0] for entry in entries if _VALUE in entry}

    def cost(self, data: bytes) -> tuple[Range, Value]:
        """Return the cost of an expression, and what is known about its value."""
        node = fields(data)
        for kind, method in (
            (_CONSTANT, self._constant),
            (_IDENTIFIER, self._identifier),
            (_SELECT, self._select),
            (_CALL, self._call),
            (_LIST, self._list),
            (_STRUCT, self._struct),
            (_COMPREHENSION, self._comprehension),
        ):
            if kind in node:
                return method(fields(node[kind][0]), node.get(_ID, [0])[0])
        return NONE, Value()

    def _constant(self, constant: Message, number: int) -> tuple[Range, Value]:
        value = self._value(number)
        if _TEXT in constant:
            return NONE, replace(value, size=exactly(len(constant[_TEXT][0].decode())))
        if _BYTES in constant:
            return NONE, replace(value, size=exactly(len(constant[_BYTES][0])))
        return NONE, replace(value, size=ONE, limit=constant.get(_INT, [None])[0])

    def _identifier(self, identifier: Message, number: int) -> tuple[Range, Value]:
        name = identifier[1][0].decode()
        if scopes := self.variables.get(name):
            return ONE, self._value(number, scopes[-1].path, scopes[-1].type)
        return ONE, self._value(number, () if name in _ACCUMULATORS else (name,))

    def _select(self, select: Message, number: int) -> tuple[Range, Value]:
        cost, operand = self.cost(select[1][0])
        if select.get(3, [0])[0]:
            return cost, self._value(number)
        if operand.type in _SELECTED:
            cost = cost.plus(ONE)
        path = (*operand.path, select[2][0].decode()) if operand.path else ()
        return cost, self._value(number, path)

    def _list(self, literal: Message, number: int) -> tuple[Range, Value]:
        elements = literal.get(1, [])
        cost = total([self.cost(element)[0] for element in elements])
        return cost.plus(exactly(_LIST_COST)), replace(self._value(number), size=exactly(len(elements)))

    def _struct(self, literal: Message, number: int) -> tuple[Range, Value]:
        entries, is_map = [fields(entry) for entry in literal.get(2, [])], not literal.get(1, [b""])[0]
        parts = [part for entry in entries for kind in (3, 4) for part in entry.get(kind, ())]
        cost = total([self.cost(part)[0] for part in parts])
        value = self._value(number)
        if not is_map:
            return cost.plus(exactly(_MESSAGE_COST)), value
        return cost.plus(exactly(_MAP_COST)), replace(value, size=exactly(len(entries)))

    def _comprehension(self, loop: Message, number: int) -> tuple[Range, Value]:
        names = [loop[kind][0].decode() for kind in (1, 8) if loop.get(kind, [b""])[0]]
        cost, source = self.cost(loop[2][0])
        cost = cost.plus(self.cost(loop[4][0])[0])
        part = KEYS if source.type == "map" else ITEMS
        # As in cel-go, the items of a list without a path have the sizes of values below the variable ``self``.
        item = Value((*source.path, part), "" if source.path else source.item_type)
        for name in names:
            self.variables.setdefault(name, []).append(item)
        turn = self.cost(loop[5][0])[0].plus(self.cost(loop[6][0])[0])
        for name in names:
            self.variables[name].pop()
        cost = cost.plus(self.cost(loop[7][0])[0])
        return cost.plus(self.size(source).times(turn)), self._value(number)

    def _call(self, call: Message, number: int) -> tuple[Range, Value]:
        name, overloads = call[2][0].decode(), self.overloads.get(number, ())
        found = [self.cost(argument) for argument in call.get(3, ())]
        costs, arguments = [cost for cost, _ in found], [value for _, value in found]
        if not overloads:
            return NONE, self._value(number)
        cost, target = NONE, None
        if 1 in call:
            cost, target = self.cost(call[1][0])
        estimates = [self._overload(name, overload, target, arguments, costs) for overload in overloads]
        highest, size = estimates[0].cost, None
        path: Path = ()
        for estimate, overload in zip(estimates, overloads, strict=True):
            highest = highest.union(estimate.cost)
            if estimate.size is not None:
                size = estimate.size if size is None else size.union(estimate.size)
            part = {"index_list": ITEMS, "index_map": VALUES}.get(overload)
            if part is not None and arguments and arguments[0].path:
                path = (*arguments[0].path, part)
        return cost.plus(highest), replace(self._value(number, path), size=size)

    def _overload(
        self, name: str, overload: str, target: Value | None, arguments: Sequence[Value], costs: Sequence[Range]
    ) -> CallCost:
        """Return the cost of a call with its arguments."""
        known = LIBRARY.get(name)
        estimate = known(self, target, arguments) if known is not None else None
        if estimate is not None:
            return CallCost(estimate.cost.plus(total(costs)), estimate.size)
        if overload in ("logical_or", "logical_and"):
            return CallCost(Range(costs[0].low, costs[0].plus(costs[1]).high))
        if overload == "conditional":
            size = self.size(arguments[1]).union(self.size(arguments[2]))
            return CallCost(costs[0].plus(costs[1].union(costs[2])), size)
        standard = STANDARD.get(overload)
        estimate = standard(self, target, arguments) if standard is not None else None
        estimate = estimate or CallCost(ONE)
        return CallCost(estimate.cost.plus(total(costs)), estimate.size)

    def size(self, value: Value) -> Range:
        """Return the size of a text, list or map; that of a scalar is 1."""
        if value.size is not None:
            return value.size
        if value.path and (shape := self.shape_of(value.path)) is not None:
            return Range(0, shape.max_size)
        return ONE if value.type in _SCALARS else ANY

    def item_of(self, value: Value) -> Value | None:
        """Return the items of a list, ``None`` if *value* is not a list."""
        if value.type != "list":
            return None
        if value.path:
            return self._described(Value((*value.path, ITEMS), value.item_type))
        return Value(type=value.item_type)

    def _value(self, number: int, path: Path = (), default: str = "") -> Value:
        kind, item = _type_name(self.types.get(number, b""))
        return self._described(Value(path, kind or default, item_type=item))

    def _described(self, value: Value) -> Value:
        """Return *value* with the type of the schema, which is more precise than that of the type checker."""
        has_type = value.path and value.path[0] not in (ITEMS, KEYS)
        shape = self.shape_of(value.path) if has_type else None
        return value if shape is None or shape.type in ("", "dyn") else replace(value, type=shape.type)


def _type_name(data: bytes) -> tuple[str, str]:
    """Return the name of a serialized type, and that of the items of a list; empty if it is dynamic."""
    kind = fields(data)
    if _PRIMITIVE in kind:
        return _PRIMITIVES.get(kind[_PRIMITIVE][0], ""), ""
    if _WELL_KNOWN in kind:
        return _WELL_KNOWN_TYPES.get(kind[_WELL_KNOWN][0], ""), ""
    if _LIST_TYPE in kind:
        return "list", _type_name(fields(kind[_LIST_TYPE][0]).get(1, [b""])[0])[0]
    for number, name in ((_MAP_TYPE, "map"), (_MESSAGE_TYPE, "object"), (_PARAMETER_TYPE, "parameter")):
        if number in kind:
            return name, ""
    return "", ""

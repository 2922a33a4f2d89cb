"""Tests for the costs of single calls, by the sizes of their operands."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from apiserver_stub.cel.cost_bounds import NONE, ONE, CallCost, Range, Value, exactly
from apiserver_stub.cel.function_costs import LIBRARY, STANDARD


class Fixed:
    """Sizes that operands state themselves; the items of lists have the size 20."""

    def size(self, value: Value) -> Range:
        return value.size or NONE

    def item_of(self, value: Value) -> Value | None:
        return Value(type=value.item_type, size=exactly(20)) if value.type == "list" else None


def text(low: int, high: int | None = None) -> Value:
    return Value(type="string", size=Range(low, low if high is None else high))


def number(value: int | None) -> Value:
    return Value(type="int", size=ONE, limit=value)


def items(count: int, kind: str) -> Value:
    return Value(type="list", size=exactly(count), item_type=kind)


def cost(low: int, high: int, size: tuple[int, int] | None = None) -> CallCost:
    return CallCost(Range(low, high), None if size is None else Range(*size))


@pytest.mark.parametrize(
    ("name", "target", "arguments", "expected"),
    [
        ("check", None, [], cost(350_000, 350_000)),
        ("path", None, [], cost(1, 1)),
        ("url", None, [text(10, 100)], cost(1, 10)),
        ("trim", text(10, 100), [], cost(1, 10, (10, 100))),
        ("trim", None, [text(1)], None),
        ("isSorted", items(10, "string"), [], cost(30, 30)),
        ("isSorted", items(10, "bytes"), [], cost(30, 30)),
        ("isSorted", items(10, "int"), [], cost(10, 10)),
        ("indexOf", text(10, 100), [text(1)], cost(1, 10)),
        ("indexOf", None, [text(1)], None),
        ("sets.contains", None, [items(10, "int"), items(3, "int")], cost(31, 31)),
        ("sets.equivalent", None, [items(10, "int"), items(3, "int")], cost(61, 61)),
        ("replace", text(10), [text(1), text(2)], cost(2, 2, (10, 20))),
        ("replace", text(10), [text(2), text(1)], cost(2, 2, (5, 10))),
        ("replace", text(10), [text(2), text(2)], cost(2, 2, (10, 10))),
        ("replace", text(10), [text(0), text(2)], cost(2, 2, (32, 32))),
        ("replace", None, [text(1), text(2)], None),
        ("split", text(10, 100), [text(1)], cost(2, 20, (0, 100))),
        ("split", text(10, 100), [text(1), number(3)], cost(2, 20, (0, 3))),
        ("split", text(10, 100), [text(1), number(None)], cost(2, 20, (0, 100))),
        ("split", None, [text(1)], None),
        ("join", items(3, "string"), [], cost(6, 6, (60, 60))),
        ("join", items(3, "string"), [text(5)], cost(7, 7, (70, 70))),
        ("join", items(0, "string"), [text(5)], cost(0, 0, (0, 0))),
        ("join", Value(size=exactly(3)), [text(5)], cost(1, 1, (10, 10))),
        ("join", None, [text(1)], None),
        ("find", text(9, 99), [text(8)], cost(2, 20, (0, 99))),
        ("find", None, [text(8)], None),
    ],
)
def test_call_of_a_library_function(
    name: str, target: Value | None, arguments: Sequence[Value], expected: CallCost | None
) -> None:
    assert LIBRARY[name](Fixed(), target, arguments) == expected


@pytest.mark.parametrize(
    ("overload", "target", "arguments", "expected"),
    [
        ("string_to_bytes", None, [text(10, 100)], cost(1, 10, (10, 400))),
        ("bytes_to_string", None, [text(10, 100)], cost(1, 10, (2, 100))),
        ("starts_with_string", text(1), [text(10, 100)], cost(1, 10)),
        ("in_list", None, [text(1), items(7, "int")], cost(7, 7)),
        ("matches_string", text(9), [text(8)], cost(2, 2)),
        ("matches_string", None, [text(9), text(8)], None),
        ("contains_string", text(10), [text(20)], cost(2, 2)),
        ("contains_string", None, [text(20)], None),
        ("add_string", None, [text(10), text(20, 30)], cost(3, 4, (30, 40))),
        ("add_list", None, [items(1, "int"), items(2, "int")], cost(1, 1, (3, 3))),
        ("less_string", None, [text(10, 100), text(30)], cost(1, 3)),
        ("equals", None, [text(0), text(30)], cost(0, 0)),
    ],
)
def test_call_of_an_overload(
    overload: str, target: Value | None, arguments: Sequence[Value], expected: CallCost | None
) -> None:
    sizes: Any = Fixed()

    assert STANDARD[overload](sizes, target, arguments) == expected

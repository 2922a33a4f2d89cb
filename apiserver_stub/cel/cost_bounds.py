"""Bounds of costs and sizes, and properties of the operands of an expression. No I/O."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple, Protocol

from nodeagent.base.structs import Struct

UNLIMITED = (1 << 64) - 1
ITEMS, KEYS, VALUES = "@items", "@keys", "@values"
"""Parts of paths below lists and maps."""


class Range(NamedTuple):
    """Lower and upper bound of a cost or a size; bounds do not exceed :data:`UNLIMITED`."""

    low: int
    high: int

    def plus(self, other: Range) -> Range:
        return limited(self.low + other.low, self.high + other.high)

    def times(self, other: Range) -> Range:
        return limited(self.low * other.low, self.high * other.high)

    def scaled(self, factor: float) -> Range:
        return limited(*(math.ceil(bound * factor) for bound in self))

    def union(self, other: Range) -> Range:
        return Range(min(self.low, other.low), max(self.high, other.high))


def limited(low: int, high: int) -> Range:
    return Range(min(low, UNLIMITED), min(high, UNLIMITED))


ONE, NONE, ANY = Range(1, 1), Range(0, 0), Range(0, UNLIMITED)

Path = tuple[str, ...]
"""Variable, then names of fields, :data:`ITEMS`, :data:`KEYS` and :data:`VALUES`."""


class Shape(NamedTuple):
    """Type and greatest size of the values at a path."""

    type: str
    """``bool``, ``string``, ``list``, ``map``, ``object``, …"""
    max_size: int


class CallCost(NamedTuple):
    """Cost of a call without its arguments, and the size of its result if that is known."""

    cost: Range
    size: Range | None = None


class Value(Struct, frozen=True):
    """An operand."""

    path: Path = ()
    type: str = ""
    size: Range | None = None
    item_type: str = ""
    """Type of the items of a list without a path."""
    limit: int | None = None
    """Value of an integer literal."""


class Sizes(Protocol):
    """Sizes of operands."""

    def size(self, value: Value) -> Range:
        """Return the size of a text, list or map; that of a scalar is 1."""
        ...

    def item_of(self, value: Value) -> Value | None:
        """Return the items of a list, ``None`` if *value* is not a list."""
        ...


def exactly(size: int) -> Range:
    return Range(size, size)


def total(costs: Sequence[Range]) -> Range:
    """Return the sum of *costs*."""
    result = NONE
    for cost in costs:
        result = result.plus(cost)
    return result

"""Costs of calls: functions of the Kubernetes libraries, and overloads of the standard library. No I/O."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

from apiserver_stub.cel.cost_bounds import NONE, ONE, UNLIMITED, CallCost, Range, Sizes, Value, exactly, limited

_TRAVERSAL, _REGEX = 0.1, 0.25
_CHECK_COST = 350_000

Function = Callable[[Sizes, Value | None, Sequence[Value]], CallCost | None]
"""Return the cost of a call, ``None`` for a form that costs 1; the type checker has counted the arguments."""


def _fixed(cost: int) -> Function:
    return lambda sizes, target, arguments: CallCost(exactly(cost))


def _traversal(factor: float, *, of_argument: bool = False, keeps_size: bool = False) -> Function:
    """Return the estimate for functions that traverse a text once or several times."""

    def estimate(sizes: Sizes, target: Value | None, arguments: Sequence[Value]) -> CallCost | None:
        traversed = arguments[0] if of_argument else target
        if traversed is None:
            return None
        size = sizes.size(traversed)
        return CallCost(size.scaled(factor), size if keeps_size else None)

    return estimate


def _each_item(sizes: Sizes, target: Value | None, arguments: Sequence[Value]) -> CallCost | None:
    if target is None:
        return None
    size, item = sizes.size(target), sizes.item_of(target)
    if item is None:
        return CallCost(size.scaled(_TRAVERSAL))
    cost = ONE
    if item.type in ("string", "bytes"):
        cost = cost.plus(sizes.size(item).scaled(_TRAVERSAL))
    return CallCost(size.times(cost))


def _replacement(sizes: Sizes, target: Value | None, arguments: Sequence[Value]) -> CallCost | None:
    if target is None:
        return None
    size, old, new = sizes.size(target), sizes.size(arguments[0]), sizes.size(arguments[1])
    count_high, kept_high = _replaced(size.high, old.low, shorter=new.high <= old.low)
    count_low, kept_low = _replaced(size.low, old.high, shorter=old.high <= new.low)
    result = limited(count_low, count_high).times(new).plus(Range(kept_low, kept_high))
    return CallCost(size.scaled(2 * _TRAVERSAL), result)


def _replaced(size: int, old: int, *, shorter: bool) -> tuple[int, int]:
    """Return the number of replacements in a text of *size*, and the number of its characters that remain."""
    if old == 0:
        return min(size + 1, UNLIMITED), size
    return (0, size) if shorter else (math.ceil(size / old), 0)


def _split(sizes: Sizes, target: Value | None, arguments: Sequence[Value]) -> CallCost | None:
    if target is None:
        return None
    size = sizes.size(target)
    most = arguments[1].limit if len(arguments) > 1 and arguments[1].limit is not None else size.high
    return CallCost(size.scaled(2 * _TRAVERSAL), Range(0, most))


def _join(sizes: Sizes, target: Value | None, arguments: Sequence[Value]) -> CallCost | None:
    if target is None:
        return None
    items, item = sizes.size(target), sizes.item_of(target)
    size = NONE if item is None else items.times(sizes.size(item))
    if arguments:
        separators = Range(max(0, items.low - 1), max(0, items.high - 1))
        size = size.plus(sizes.size(arguments[0]).times(separators))
    return CallCost(size.scaled(_TRAVERSAL), size)


def _search(*, finds: bool) -> Function:
    """Return the estimate for functions that match a pattern; the result of a search is a part of the text."""

    def estimate(sizes: Sizes, target: Value | None, arguments: Sequence[Value]) -> CallCost | None:
        if target is None:  # A pattern that matches() receives as its second argument costs 1, as upstream.
            return None
        size = sizes.size(target)
        pattern = sizes.size(arguments[0]).scaled(_REGEX)
        return CallCost(size.plus(ONE).scaled(_TRAVERSAL).times(pattern), Range(0, size.high) if finds else None)

    return estimate


def _contains(sizes: Sizes, target: Value | None, arguments: Sequence[Value]) -> CallCost | None:
    if target is None:
        return None
    return CallCost(sizes.size(target).scaled(_TRAVERSAL).times(sizes.size(arguments[0]).scaled(_TRAVERSAL)))


def _prefix(sizes: Sizes, target: Value | None, arguments: Sequence[Value]) -> CallCost:
    return CallCost(sizes.size(arguments[0]).scaled(_TRAVERSAL))


def _membership(sizes: Sizes, target: Value | None, arguments: Sequence[Value]) -> CallCost:
    return CallCost(sizes.size(arguments[1]))


def _conversion(low: float, high: int) -> Function:
    def estimate(sizes: Sizes, target: Value | None, arguments: Sequence[Value]) -> CallCost:
        size = sizes.size(arguments[0])
        return CallCost(size.scaled(_TRAVERSAL), limited(int(size.low * low), size.high * high))

    return estimate


def _comparison(sizes: Sizes, target: Value | None, arguments: Sequence[Value]) -> CallCost | None:
    shorter = min(sizes.size(argument).high for argument in arguments)
    return CallCost(Range(min(1, shorter), shorter).scaled(_TRAVERSAL))


def _concatenation(*, traverses: bool) -> Function:
    def estimate(sizes: Sizes, target: Value | None, arguments: Sequence[Value]) -> CallCost:
        size = sizes.size(arguments[0]).plus(sizes.size(arguments[1]))
        return CallCost(size.scaled(_TRAVERSAL) if traverses else ONE, size)

    return estimate


def _pairs(factor: int) -> Function:
    """Return the estimate for functions that compare each item of a list with each of another."""

    def estimate(sizes: Sizes, target: Value | None, arguments: Sequence[Value]) -> CallCost:
        return CallCost(sizes.size(arguments[0]).times(sizes.size(arguments[1])).scaled(factor).plus(ONE))

    return estimate


LIBRARY: Mapping[str, Function] = {
    "check": _fixed(_CHECK_COST),
    **dict.fromkeys(("serviceAccount", "path", "group", "resource", "subresource", "namespace", "name"), _fixed(1)),
    **dict.fromkeys(("allowed", "reason", "error", "errored"), _fixed(1)),
    **dict.fromkeys(("isSorted", "sum", "max", "min", "indexOf", "lastIndexOf"), _each_item),
    "url": _traversal(_TRAVERSAL, of_argument=True),
    **dict.fromkeys(("lowerAscii", "upperAscii", "substring", "trim"), _traversal(_TRAVERSAL, keeps_size=True)),
    **dict.fromkeys(("sets.contains", "sets.intersects"), _pairs(1)),
    "sets.equivalent": _pairs(2),
    "replace": _replacement,
    "split": _split,
    "join": _join,
    **dict.fromkeys(("find", "findAll"), _search(finds=True)),
}
"""Estimates by function of the Kubernetes libraries."""

_ORDERINGS = [
    f"{name}_{kind}" for name in ("less", "greater", "less_equals", "greater_equals") for kind in ("string", "bytes")
]
STANDARD: Mapping[str, Function] = {
    "string_format": _traversal(_TRAVERSAL),
    "string_to_bytes": _conversion(1, 4),
    "bytes_to_string": _conversion(0.25, 1),
    **dict.fromkeys(("starts_with_string", "ends_with_string"), _prefix),
    "in_list": _membership,
    "matches_string": _search(finds=False),
    "contains_string": _contains,
    **dict.fromkeys(("add_string", "add_bytes"), _concatenation(traverses=True)),
    "add_list": _concatenation(traverses=False),
    **dict.fromkeys(_ORDERINGS, _comparison),
    **dict.fromkeys(("equals", "not_equals"), _comparison),
}
"""Estimates by overload of the standard library; other calls cost 1."""

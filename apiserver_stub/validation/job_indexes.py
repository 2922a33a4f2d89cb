"""Completion indexes of Jobs as text: numbers and ranges, such as ``0,2-4``."""

from __future__ import annotations

from apiserver_stub.apimachinery.status import quote
from nodeagent.base.gointeger import IntegerError, parse_int64

Interval = tuple[int, int]
"""First and last index."""


class IndexesError(ValueError):
    """Text that does not list indexes in ascending order; the message is upstream's."""


def parse_intervals(text: str, completions: int) -> list[Interval]:
    """Return the intervals of indexes below *completions* in *text*.

    :raises IndexesError: an interval is invalid, or does not follow the one before.
    """
    found: list[Interval] = []
    for part in text.split(",") if text else ():
        interval = _parse_interval(part, completions)
        if found and found[-1][1] >= interval[0]:
            raise IndexesError(f"non-increasing order, previous: {found[-1][1]}, current: {interval[0]}")
        found.append(interval)
    return found


def first_overlap(text: str, other: str, completions: int) -> int | None:
    """Return the first index that both texts contain; invalid intervals are skipped."""
    intervals, others = _valid_intervals(text, completions), _valid_intervals(other, completions)
    while intervals and others:
        (first, last), (other_first, other_last) = intervals[0], others[0]
        if first <= other_last and other_first <= last:
            return max(first, other_first)
        (intervals if first <= other_first else others).pop(0)
    return None


def _valid_intervals(text: str, completions: int) -> list[Interval]:
    found = []
    for part in text.split(","):
        try:
            found.append(_parse_interval(part, completions))
        except IndexesError:
            continue
    return found


def _parse_interval(text: str, completions: int) -> Interval:
    limits = text.split("-")
    if len(limits) > 2:
        rule = "violates the requirement that an index interval can have at most two parts separated by '-'"
        raise IndexesError(f"the fragment {quote(text)} {rule}")
    first = _parse_index(limits[0], completions)
    if len(limits) == 1:
        return first, first
    last = _parse_index(limits[1], completions)
    if first >= last:
        raise IndexesError(f"non-increasing order, previous: {first}, current: {last}")
    return first, last


def _parse_index(text: str, completions: int) -> int:
    try:
        index = parse_int64(text)
    except IntegerError:
        raise IndexesError(f"cannot convert string to integer for index: {quote(text)}") from None
    if index >= completions:
        raise IndexesError(f"too large index: {quote(text)}")
    return index

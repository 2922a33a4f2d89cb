"""Values at JSONPath expressions, for printer columns. No I/O.

Custom, since packages implement other dialects of JSONPath than ``kubectl``.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from apiserver_stub.apimachinery import objects
from apiserver_stub.apimachinery.go_format import go_value
from nodeagent.base.text_cache import text_cache

_Step = Callable[[Any], Iterator[Any]]

_FIELD = re.compile(r"\.?((?:\\.|[^.\[\]\\\s'\"])+)")
_KEYS = re.compile(r"\[\s*('(?:\\'|[^'])*'(?:\s*,\s*'(?:\\'|[^'])*')*)\s*\]")
_KEY = re.compile(r"'((?:\\'|[^'])*)'")
_NUMBER = r"-?\d{1,18}"
_INDEX = re.compile(rf"\[\s*({_NUMBER}(?:\s*,\s*{_NUMBER})*)\s*\]", re.ASCII)
_SLICE = re.compile(rf"\[({_NUMBER})?:({_NUMBER})?(?::({_NUMBER})?)?\]", re.ASCII)
_FILTER = re.compile(r"\[\?\((.*?)\)\]")
_COMPARISON = re.compile(r"\s*(.+?)\s*(==|!=|<=|>=|<|>)\s*(.+?)\s*")
_MISSING = object()
_OPERATORS: dict[str, Callable[[Any, Any], bool]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


def values_at(path: str, document: Any) -> Iterator[Any]:
    """Yield the values at *path*, an expression without braces; missing fields and invalid parts yield nothing.

    A value that several steps reach is yielded once, as paths with several ``..`` would reach it very often.
    """
    values = [document]
    for step in _steps(path):
        values = list({id(found): found for value in values for found in step(value)}.values())
    yield from values


def text_of(value: Any) -> str:
    """Return *value* as ``kubectl`` prints the result of an expression."""
    if isinstance(value, str):
        return value
    if isinstance(value, dict | list):
        return objects.encode(value).decode()
    return go_value(value)


@text_cache(1024)
def _steps(path: str) -> tuple[_Step, ...]:
    found: list[_Step] = []
    rest = path.strip().removeprefix("$").removeprefix("@")
    while rest and rest != ".":
        if rest.startswith(".."):
            found.append(_descendants)
            rest = rest[1:] if rest[2:3] not in ("[", "") else rest[2:]
        elif rest.startswith((".*", "[*]", "*")):
            found.append(_every)
            rest = rest[3 if rest.startswith("[*]") else 2 if rest.startswith(".*") else 1 :]
        elif rest.startswith("."):
            rest = _field_step(rest, found) if rest[1:2] != "[" else rest[1:]
        elif rest.startswith("["):
            rest = _bracket_step(rest, found)
        else:
            rest = _field_step(rest, found)
    return tuple(found)


def _field_step(rest: str, found: list[_Step]) -> str:
    match = _FIELD.match(rest)
    if match is None:
        found.append(_nothing)
        return ""
    found.append(_field(re.sub(r"\\(.)", r"\1", match[1])))
    return rest[match.end() :]


def _bracket_step(rest: str, found: list[_Step]) -> str:
    if match := _FILTER.match(rest):
        found.append(_filter(match[1]))
    elif match := _KEYS.match(rest):
        found.append(_union([_field(key.replace("\\'", "'")) for key in _KEY.findall(match[1])]))
    elif match := _INDEX.match(rest):
        found.append(_union([_index(int(number)) for number in match[1].split(",")]))
    elif match := _SLICE.match(rest):
        start, end, step = (int(part) if part else None for part in match.groups())
        found.append(_slice(slice(start, end, step)) if step is None or step > 0 else _nothing)
    else:
        found.append(_nothing)
        return ""
    return rest[match.end() :]


def _nothing(value: Any) -> Iterator[Any]:
    return iter(())


def _every(value: Any) -> Iterator[Any]:
    if isinstance(value, dict):
        yield from value.values()
    elif isinstance(value, list):
        yield from value


def _descendants(value: Any) -> Iterator[Any]:
    yield value
    for below in _every(value):
        yield from _descendants(below)


def _field(name: str) -> _Step:
    def step(value: Any) -> Iterator[Any]:
        if isinstance(value, dict) and name in value:
            yield value[name]

    return step


def _index(number: int) -> _Step:
    def step(value: Any) -> Iterator[Any]:
        if isinstance(value, list) and -len(value) <= number < len(value):
            yield value[number]

    return step


def _slice(part: slice) -> _Step:
    def step(value: Any) -> Iterator[Any]:
        if isinstance(value, list):
            yield from value[part]

    return step


def _union(steps: Sequence[_Step]) -> _Step:
    def step(value: Any) -> Iterator[Any]:
        for one in steps:
            yield from one(value)

    return step


def _filter(text: str) -> _Step:
    match = _COMPARISON.fullmatch(text)
    if match is None:
        exists = _operand(text)
        return lambda value: (item for item in _every(value) if next(exists(item), None) is not None)
    left, compare, right = _operand(match[1]), _OPERATORS[match[2]], _operand(match[3])

    def step(value: Any) -> Iterator[Any]:
        for item in _every(value):
            one, other = next(left(item), _MISSING), next(right(item), _MISSING)
            if one is not _MISSING and one.__class__ is other.__class__ and _holds(compare, one, other):
                yield item

    return step


def _holds(compare: Callable[[Any, Any], bool], one: Any, other: Any) -> bool:
    try:
        return compare(one, other)
    except TypeError:  # Objects and nulls have no order.
        return False


def _operand(text: str) -> _Step:
    text = text.strip()
    if text[:1] in ("'", '"'):
        literal: Any = text[1:-1]
    elif text in ("true", "false"):
        literal = text == "true"
    elif re.fullmatch(r"-?\d+(\.\d+)?", text):
        literal = float(text) if "." in text else int(text)
    else:
        return lambda item: values_at(text, item)
    return lambda item: iter((literal,))

"""What comes in is held to the shape of its kind: wrong types are refused, unknown and repeated members are told.

One walk does it all, as it runs for every write: it also drops unknown members and nulls, and writes times in UTC.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Callable
from copy import deepcopy
from datetime import UTC
from functools import cache, lru_cache
from typing import Any

from apiserver_stub.objects import Object, parse_time
from apiserver_stub.schema import Form, Shape
from nodeagent.base.quantity import Quantity

_MICRO = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}(Z|[+-]\d\d:\d\d)")
_INDEX = re.compile(r"\[\d+\]")
_SPACED_COLON = re.compile(rb'"\s+:')
_QUANTITY_RULE = "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
_TIME_LAYOUT, _MICRO_LAYOUT = "2006-01-02T15:04:05Z07:00", "2006-01-02T15:04:05.000000Z07:00"
_WITH_ZERO = frozenset((Form.TEXT, Form.BOOL, Form.INT32, Form.INT64, Form.FLOAT, Form.LIST, Form.MAP, Form.BYTES))
_RANGES = {Form.INT32: 1 << 31, Form.INT64: 1 << 63}


class Misfit(ValueError):
    """A value does not have the type of its place; the text is the one that clients of the API know."""


class Findings:
    """What one walk found: paths of unknown members, and how many members there are in all."""

    __slots__ = ("members", "unknown")

    def __init__(self) -> None:
        self.unknown: list[str] = []
        self.members = 0


Check = Callable[[Any, str, Findings], Any]
"""Takes a value, its path and the findings; returns the value as it is kept."""


def check(obj: Object, shape: Shape, *, complete: bool = False) -> Findings:
    """Hold *obj* to *shape*: unknown members and nulls are dropped from it, times are written in UTC.

    :param complete: zero values of fields without presence are dropped too, and fields that are always present are
        added: the object becomes what a Go client would read and write.
    :raises Misfit: a value has the wrong type.
    """
    found = Findings()
    _check_of(shape, complete)(obj, "", found)
    return found


def repeated(body: bytes, members: int) -> list[str]:
    """Return the paths of members that JSON *body* names twice; *members* is how many its value holds."""
    if body.count(b'":') == members and _SPACED_COLON.search(body) is None:
        return []  # a colon for each member that is left: nothing was lost
    found: list[str] = []
    _find_repeated(json.loads(body, object_pairs_hook=_Pairs), "", found)
    return found


class _Pairs(list[tuple[str, Any]]):
    """The members of an object, repeated ones included."""


def _find_repeated(value: Any, path: str, found: list[str]) -> None:
    if isinstance(value, _Pairs):
        seen = set()
        for name, content in value:
            if name in seen:
                found.append(path + name)
            seen.add(name)
            _find_repeated(content, f"{path}{name}.", found)
    elif isinstance(value, list):
        for index, item in enumerate(value):
            _find_repeated(item, f"{path[:-1]}[{index}].", found)


# How each form is checked


@cache
def _check_of(shape: Shape, complete: bool) -> Check:
    match shape.form:
        case Form.OBJECT:
            return _object_check(shape, complete)
        case Form.MAP:
            return _map_check(shape, complete)
        case Form.LIST:
            return _list_check(shape, complete)
        case Form.INT32 | Form.INT64:
            return _int_check(shape)
        case Form.ANY:
            return _any
        case _:
            return _SCALARS[shape.form]


def _object_check(shape: Shape, complete: bool) -> Check:
    checks: dict[str, Check] = {}
    texts = frozenset(name for name, member in shape.members.items() if member.form is Form.TEXT)
    owner = shape.name
    dropped: frozenset[str] = frozenset()
    """Fields whose zero value is dropped."""
    always: dict[str, Any] = {}
    if complete:
        always = shape.blank()
        forms = {name: member.form for name, member in shape.members.items() if name not in shape.tracked}
        dropped = frozenset(name for name, form in forms.items() if form in _WITH_ZERO and always.get(name) is None)

    def run(value: Any, path: str, found: Findings) -> Any:
        if value.__class__ is not dict:
            raise _wrong_type(value, path, f"v1.{owner}")
        if not checks:  # at the first value, as shapes may be recursive
            checks.update((name, _check_of(member, complete)) for name, member in shape.members.items())
        found.members += len(value)
        changes: list[tuple[str, Any]] = []
        for name, content in value.items():
            if name in texts:
                if content.__class__ is str:
                    if not content and name in dropped:
                        changes.append((name, None))
                    continue
                if content is not None:
                    raise _wrong_type(content, f"{owner}|{path}{name}", "string")
                changes.append((name, None))
            elif (member := checks.get(name)) is None:
                found.unknown.append(path + name)
                found.members += count_members(content)
                changes.append((name, None))
            elif content is None:
                changes.append((name, None))
            else:
                try:
                    kept = member(content, f"{path}{name}.", found)
                except _Inner as error:
                    raise error.placed(f"{owner}|{path}{name}") from None
                if kept is not content or (not kept and name in dropped):
                    changes.append((name, kept if kept or name not in dropped else None))
        for name, kept in changes:
            if kept is None:
                del value[name]
            else:
                value[name] = kept
        for name, zero in always.items():
            if name not in value:
                value[name] = deepcopy(zero) if zero.__class__ is dict else zero
        return value

    return run


def _map_check(shape: Shape, complete: bool) -> Check:
    item = shape.item
    if item is None or item.form is Form.TEXT:

        def run_texts(value: Any, path: str, found: Findings) -> Any:
            if value.__class__ is not dict:
                raise _Inner(type_name(value), "map[string]string")
            found.members += len(value)
            for name, content in value.items():
                if content is None:
                    value[name] = ""
                elif content.__class__ is not str:
                    raise _Inner(type_name(content), "string")
            return value

        return run_texts
    check_item = _check_of(item, complete)

    def run(value: Any, path: str, found: Findings) -> Any:
        if value.__class__ is not dict:
            raise _Inner(type_name(value), f"map[string]{item.form.value}")
        found.members += len(value)
        for name, content in value.items():
            value[name] = check_item(content, f"{path}{name}.", found)
        return value

    return run


def _list_check(shape: Shape, complete: bool) -> Check:
    item = shape.item or Shape(Form.ANY)
    check_item = _check_of(item, complete)
    is_text = item.form is Form.TEXT
    wanted = f"[]v1.{item.name}" if item.form is Form.OBJECT else f"[]{item.form.value}"
    zero = item.zero()

    def run(value: Any, path: str, found: Findings) -> Any:
        if value.__class__ is not list:
            raise _Inner(type_name(value), wanted)
        for index, content in enumerate(value):
            if is_text:
                if content.__class__ is not str:
                    if content is not None:
                        raise _Inner(type_name(content), "string")
                    value[index] = ""
            elif content is None and zero is not None:
                value[index] = check_item({}, "", found) if zero == {} else zero
            else:
                value[index] = check_item(content, f"{path[:-1]}[{index}].", found)
        return value

    return run


def _int_check(shape: Shape) -> Check:
    limit, wanted = _RANGES[shape.form], shape.form.value

    def run(value: Any, path: str, found: Findings) -> Any:
        if value.__class__ is not int or not -limit <= value < limit:
            raise _Inner(type_name(value, exact=True), wanted)
        return value

    return run


def _text(value: Any, path: str, found: Findings) -> Any:
    if value.__class__ is not str:
        raise _Inner(type_name(value), "string")
    return value


def _bool(value: Any, path: str, found: Findings) -> Any:
    if value.__class__ is not bool:
        raise _Inner(type_name(value), "bool")
    return value


def _float(value: Any, path: str, found: Findings) -> Any:
    if value.__class__ not in (int, float):
        raise _Inner(type_name(value), "float64")
    return value


def _bytes(value: Any, path: str, found: Findings) -> Any:
    if value.__class__ is not str:
        raise _Inner(type_name(value), "[]uint8")
    try:
        base64.b64decode(value, validate=True)
    except (binascii.Error, ValueError):
        raise Misfit("illegal base64 data at input byte 0") from None
    return value


def _time(value: Any, path: str, found: Findings) -> Any:
    if value.__class__ is not str:
        raise _Inner(type_name(value), "string")
    return _utc(value)


def _micro_time(value: Any, path: str, found: Findings) -> Any:
    if value.__class__ is not str:
        raise _Inner(type_name(value), "string")
    return _utc_micro(value)


def _quantity(value: Any, path: str, found: Findings) -> Any:
    if value.__class__ not in (str, int, float):
        raise Misfit(_QUANTITY_RULE)
    return _canonical(str(value))


def _int_or_text(value: Any, path: str, found: Findings) -> Any:
    if value.__class__ is not str and (value.__class__ is not int or not -(1 << 31) <= value < 1 << 31):
        raise _Inner(type_name(value, exact=True), "int32")
    return value


def _any(value: Any, path: str, found: Findings) -> Any:
    found.members += count_members(value)
    return value


_SCALARS: dict[Form, Check] = {
    Form.TEXT: _text,
    Form.BOOL: _bool,
    Form.FLOAT: _float,
    Form.BYTES: _bytes,
    Form.TIME: _time,
    Form.MICRO_TIME: _micro_time,
    Form.QUANTITY: _quantity,
    Form.INT_OR_TEXT: _int_or_text,
}


def count_members(value: Any) -> int:
    """Return how many members all objects in *value* have."""
    if value.__class__ is dict:
        return len(value) + sum(map(count_members, value.values()))
    return sum(map(count_members, value)) if value.__class__ is list else 0


@lru_cache(maxsize=1024)
def _utc(text: str) -> str:
    moment = parse_time(text)
    if moment is None:
        raise Misfit(f'parsing time "{text}" as "{_TIME_LAYOUT}": cannot parse "{text}"')
    return text if text[-1] == "Z" and len(text) == 20 else moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


@lru_cache(maxsize=1024)
def _utc_micro(text: str) -> str:
    moment = parse_time(text) if _MICRO.fullmatch(text) else None
    if moment is None:
        raise Misfit(f'parsing time "{text}" as "{_MICRO_LAYOUT}": cannot parse "{text}"')
    return text if text[-1] == "Z" else moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


@lru_cache(maxsize=1024)
def _canonical(text: str) -> str:
    try:
        return str(Quantity.parse(text))
    except ValueError:
        raise Misfit(_QUANTITY_RULE) from None


# What is wrong


class _Inner(Exception):
    """A wrong type, before the object around it has said where."""

    def __init__(self, given: str, wanted: str) -> None:
        super().__init__(given)
        self._given, self._wanted = given, wanted

    def placed(self, place: str) -> Misfit:
        return _misfit(self._given, place, self._wanted)


def _wrong_type(value: Any, place: str, wanted: str) -> Exception:
    if "|" in place:
        return _misfit(type_name(value), place, wanted)
    return _Inner(type_name(value), wanted) if place else Misfit("json: cannot unmarshal into Go value of type struct")


def _misfit(given: str, place: str, wanted: str) -> Misfit:
    owner, _, path = place.partition("|")
    return Misfit(
        f"json: cannot unmarshal {given} into Go struct field {owner}.{_INDEX.sub('', path)} of type {wanted}"
    )


def type_name(value: Any, *, exact: bool = False) -> str:
    """Return what JSON *value* is, in the words that clients know; *exact* names a number."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "bool"
    if isinstance(value, int | float):
        return f"number {value}" if exact else "number"
    return "object" if isinstance(value, dict) else "array" if isinstance(value, list) else "string"

"""Validation of decoded objects against the schema of their kind: wrong types, unknown and duplicate fields.

As it runs for every write, the same pass also drops unknown fields and nulls, and normalizes times to UTC.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection
from functools import cache
from typing import Any

from apiserver_stub.apimachinery.go_format import type_name
from apiserver_stub.apimachinery.objects import Object, clone
from apiserver_stub.apimachinery.quantities import FORMAT_WRONG, InvalidQuantity, canonical, of_resource_list
from apiserver_stub.schema.shapes import UNKNOWN, Form, Shape
from nodeagent.base import gobase64, gotime
from nodeagent.base.text_cache import text_cache

_INDEX = re.compile(r"\[\d+\]")
_SPACED_COLON = re.compile(rb'"\s+:')
_GO_KINDS = {bool: "bool", int: "int64", float: "float64", list: "slice", dict: "map"}
_WITH_ZERO = frozenset((Form.TEXT, Form.BOOL, Form.INT32, Form.INT64, Form.FLOAT, Form.LIST, Form.MAP, Form.BYTES))
_COLLECTIONS = (Form.LIST, Form.MAP)
_RANGES = {Form.INT32: 1 << 31, Form.INT64: 1 << 63}


class SchemaMismatch(ValueError):
    """A value does not have the type that the schema requires; the text is upstream's."""

    def __init__(self, message: str, converting: str = "") -> None:
        super().__init__(message)
        self.converting = converting or message
        """Upstream's message when it converts decoded values instead of JSON text."""


class Findings:
    """Result of a validation: the paths of unknown fields, and the number of all fields."""

    __slots__ = ("converts", "members", "unknown")

    def __init__(self, *, converts: bool = False) -> None:
        self.unknown: list[str] = []
        self.members = 0
        self.converts = converts
        """Upstream converts decoded values: integral floats become integers, and integers wrap around."""


Check = Callable[[Any, str, Findings], Any]
"""Validate a value at a path, add to the findings, and return the normalized value."""


def check(obj: Object, shape: Shape, *, complete: bool = False, converts: bool = False) -> Findings:
    """Validate *obj* against *shape*, drop its unknown fields and normalize its times to UTC.

    :param complete: also drop nulls, and zero values of fields without presence, and add fields that are always
        present, as if the object had been decoded and encoded by a Go client.
    :param converts: *obj* was converted from decoded values, as by strategic merge patches and server-side apply.
    :raises SchemaMismatch: a value has the wrong type.
    """
    found = Findings(converts=converts)
    _check_of(shape, complete)(obj, "", found)
    return found


def repeated(body: bytes, members: int, unknown: Collection[str] = ()) -> list[str]:
    """Return the paths of duplicate fields in the JSON *body*, without those below the *unknown* fields.

    :param members: number of fields of all objects in the decoded body.
    """
    if body.count(b'":') == members and _SPACED_COLON.search(body) is None:
        return []  # There is one colon per decoded field, so there are no duplicates.
    found: dict[str, None] = {}
    _find_repeated(json.loads(body, object_pairs_hook=_Pairs), "", frozenset(unknown), found)
    return list(found)


def merge_repeated(body: bytes) -> Any:
    """Return the value of the JSON *body*, with duplicate objects merged as by Go's decoder."""
    return json.loads(body, object_pairs_hook=_merged)


def _merged(pairs: list[tuple[str, Any]]) -> Object:
    result: Object = {}
    for name, content in pairs:
        result[name] = _overlaid(result[name], content) if name in result else content
    return result


def _overlaid(before: Any, content: Any) -> Any:
    if not isinstance(before, dict):
        return content
    if content is None:
        return before
    if not isinstance(content, dict):
        return content
    return before | {name: _overlaid(before.get(name), value) for name, value in content.items()}


class _Pairs(list[tuple[str, Any]]):
    """The fields of an object, including duplicates."""


def _find_repeated(value: Any, path: str, unknown: Collection[str], found: dict[str, None]) -> None:
    if isinstance(value, _Pairs):
        seen = set()
        for name, content in value:
            if path + name in unknown:
                continue
            if name in seen:
                found[path + name] = None
            seen.add(name)
            _find_repeated(content, f"{path}{name}.", unknown, found)
    elif isinstance(value, list):
        for index, item in enumerate(value):
            _find_repeated(item, f"{path[:-1]}[{index}].", unknown, found)


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
        case Form.UNION:
            return _union_check(shape, complete)
        case _:
            return _SCALARS[shape.form]


def _object_check(shape: Shape, complete: bool, embedded: bool = False) -> Check:
    """Return the check of an object; *embedded* is the metadata of a template, which the server does not process."""
    checks: dict[str, Check] = {}
    texts = frozenset(name for name, member in shape.members.items() if member.form is Form.TEXT)
    times = frozenset(name for name, member in shape.members.items() if member.form in (Form.TIME, Form.MICRO_TIME))
    owner = shape.name
    dropped: frozenset[str] = frozenset()
    """Fields whose zero value is dropped."""
    always: dict[str, Any] = {}
    if complete:
        always = shape.blank()
        forms = {name: member.form for name, member in shape.members.items() if name not in shape.tracked}
        if not embedded:
            forms.pop(_EMPTY_LISTS.get(owner, ""), None)
        # Empty lists that are always present are kept until their owner is recorded, see stored_form.
        dropped = frozenset(
            name
            for name, form in forms.items()
            if form in _WITH_ZERO and always.get(name) is None and not (name in always and form in _COLLECTIONS)
        )

    def run(value: Any, path: str, found: Findings) -> Any:
        if value.__class__ is not dict:
            raise _wrong_object(value, path, f"v1.{owner}")
        if not checks:  # Deferred to the first value, as shapes may be recursive.
            checks.update((name, _check_of(member, complete)) for name, member in shape.members.items())
            if owner == "ObjectMeta" and not embedded:
                checks["deletionTimestamp"] = _any_time
            if owner in _TEMPLATES:
                checks["metadata"] = _object_check(shape.members["metadata"], complete, embedded=True)
        found.members += len(value)
        changes: list[tuple[str, Any]] = []
        for name, content in value.items():
            if name in texts:
                if content.__class__ is str:
                    if not content and name in dropped:
                        changes.append((name, None))
                    continue
                if content is not None:
                    raise _Inner(content, "string").at(f"{owner}|{path}{name}")
                if complete:
                    changes.append((name, None))
            elif (member := checks.get(name)) is None:
                found.unknown.append(path + name)
                found.members += count_members(content)
                changes.append((name, None))
            elif content is None:
                if complete:
                    changes.append((name, None))
            else:
                try:
                    kept = member(content, f"{path}{name}.", found)
                except _Inner as error:
                    raise error.at(f"{owner}|{path}{name}") from None
                if kept is None and name in times and name not in always:
                    value[name] = None  # Go's zero time in an optional field.
                elif kept is not content or (not kept and name in dropped):
                    changes.append((name, kept if kept or name not in dropped else None))
        for name, kept in changes:
            if kept is None:
                del value[name]
            else:
                value[name] = kept
        for name, zero in always.items():
            if name not in value:
                value[name] = clone(zero)
        return value

    return run


_TEMPLATES = ("PodTemplateSpec", "JobTemplateSpec")
_EMPTY_LISTS = {
    "ObjectMeta": "managedFields",  # resets the managed fields
    "HPAScalingRules": "policies",  # prevents the default and is invalid
    "JSONSchemaProps": "dependencies",  # is invalid
}
"""Fields by message in which an empty list or map differs from none."""


def _map_check(shape: Shape, complete: bool) -> Check:
    item = shape.item
    if item is None or item.form is Form.TEXT:

        def run_texts(value: Any, path: str, found: Findings) -> Any:
            if value.__class__ is not dict:
                raise _Inner(value, "map[string]string")
            found.members += len(value)
            for name, content in value.items():
                if content is None:
                    value[name] = ""
                elif content.__class__ is not str:
                    raise _Inner(content, "string")
            return value

        return run_texts
    is_rounded = item.form is Form.QUANTITY and not shape.exact
    check_item = _resource_quantity if is_rounded else _check_of(item, complete)
    zero = _ZEROS.get(item.form)
    go_type = "v1.ResourceList" if item.form is Form.QUANTITY else f"map[string]{item.form.value}"

    def run(value: Any, path: str, found: Findings) -> Any:
        if value.__class__ is not dict:
            raise _Inner(value, go_type)
        found.members += len(value)
        for name, content in value.items():
            if content is None and (zero is not None or item.form is Form.LIST):
                value[name] = zero  # A null list remains null.
                continue
            is_empty = content is None and item.form is Form.OBJECT
            value[name] = check_item({} if is_empty else content, f"{path}{name}.", found)
        return value

    return run


def _list_check(shape: Shape, complete: bool) -> Check:
    item = shape.item or UNKNOWN
    check_item = _check_of(item, complete)
    expected = f"[]v1.{item.name}" if item.form is Form.OBJECT else f"[]{item.form.value}"
    zero = item.zero()

    def run(value: Any, path: str, found: Findings) -> Any:
        if value.__class__ is not list:
            raise _Inner(value, expected)
        for index, content in enumerate(value):
            if content is None and zero is not None:
                value[index] = check_item({}, "", found) if zero == {} else zero
            else:
                value[index] = check_item(content, f"{path[:-1]}[{index}].", found)
        return value

    return run


def _union_check(shape: Shape, complete: bool) -> Check:
    """Return the check of a value with alternatives; its Go type has its own decoder, which ignores unknown fields."""
    checks: dict[type, Check] = {}

    def run(value: Any, path: str, found: Findings) -> Any:
        if not checks:  # Deferred, as shapes may be recursive.
            checks.update((_UNION_TYPES[name], _check_of(member, complete)) for name, member in shape.members.items())
        check_value = checks.get(value.__class__)
        if check_value is None and list in checks:
            return None  # Upstream ignores the value.
        if check_value is None:
            raise SchemaMismatch(_UNION_MISMATCH)
        found.members += count_members(value)
        return check_value(value, path, Findings(converts=found.converts))

    return run


_UNION_TYPES: dict[str, type] = {"object": dict, "list": list, "bool": bool}
_UNION_MISMATCH = "boolean or JSON schema expected"


def _int_check(shape: Shape) -> Check:
    limit, expected = _RANGES[shape.form], shape.form.value

    def run(value: Any, path: str, found: Findings) -> Any:
        if found.converts and value.__class__ is float and value.is_integer():
            value = int(value)
        if value.__class__ is int and found.converts:
            return (value + limit) % (2 * limit) - limit
        if value.__class__ is not int or not -limit <= value < limit:
            raise _Inner(value, expected, exact=True)
        return value

    return run


def _text(value: Any, path: str, found: Findings) -> Any:
    if value.__class__ is not str:
        raise _Inner(value, "string")
    return value


def _bool(value: Any, path: str, found: Findings) -> Any:
    if value.__class__ is not bool:
        raise _Inner(value, "bool")
    return value


def _float(value: Any, path: str, found: Findings) -> Any:
    if value.__class__ not in (int, float):
        raise _Inner(value, "float64")
    return value


def _bytes(value: Any, path: str, found: Findings) -> Any:
    if value.__class__ is not str:
        raise _Inner(value, "[]uint8")
    try:
        return gobase64.canonical(value)
    except gobase64.CorruptInput as error:
        raise SchemaMismatch(str(error), f"error decoding from json: {error}") from None


def _time(value: Any, path: str, found: Findings) -> Any:
    if value.__class__ is not str:
        raise _Inner(value, "string", parses=True)
    return _utc(value)


def _any_time(value: Any, path: str, found: Findings) -> Any:
    """Return Go's zero time unchanged, as it differs from an absent time."""
    kept = _time(value, path, found)
    return value if kept is None else kept


def _micro_time(value: Any, path: str, found: Findings) -> Any:
    if value.__class__ is not str:
        raise _Inner(value, "string", parses=True)
    return _utc_micro(value)


def _quantity(value: Any, path: str, found: Findings) -> Any:
    return _quantity_text(value, canonical)


def _resource_quantity(value: Any, path: str, found: Findings) -> Any:
    return "0" if value is None else _quantity_text(value, of_resource_list)


def _quantity_text(value: Any, convert: Callable[[str], str]) -> str:
    if value.__class__ not in (str, int, float):
        raise SchemaMismatch(FORMAT_WRONG)
    try:
        return convert(str(value))
    except InvalidQuantity as error:
        raise SchemaMismatch(str(error)) from None


def _int_or_text(value: Any, path: str, found: Findings) -> Any:
    if value.__class__ is not str and (value.__class__ is not int or not -(1 << 31) <= value < 1 << 31):
        raise _Inner(value, "int32", exact=True, parses=True)
    return value


def _any(value: Any, path: str, found: Findings) -> Any:
    found.members += count_members(value)
    return value


_ZEROS: dict[Form, Any] = {Form.BYTES: "", Form.QUANTITY: "0"}
"""Values that replace null in a map."""
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
    """Return the number of fields of all objects in *value*."""
    if value.__class__ is dict:
        return len(value) + sum(map(count_members, value.values()))
    return sum(map(count_members, value)) if value.__class__ is list else 0


@text_cache(1024)
def _utc(text: str) -> str | None:
    """Return the time *text* in UTC, ``None`` for Go's zero time, which is null in JSON."""
    try:
        seconds, nanos = gotime.parse(text)
    except gotime.ParseError as error:
        raise SchemaMismatch(str(error)) from None
    return gotime.render(seconds) if (seconds, nanos) != (gotime.ZERO_SECONDS, 0) else None


@text_cache(1024)
def _utc_micro(text: str) -> str | None:
    try:
        seconds, nanos = gotime.parse(text, gotime.RFC3339_MICRO)
    except gotime.ParseError as error:
        raise SchemaMismatch(str(error)) from None
    return gotime.render(seconds, nanos // 1000) if (seconds, nanos) != (gotime.ZERO_SECONDS, 0) else None


class _Inner(Exception):
    """A wrong type whose path is added by the enclosing object."""

    def __init__(self, value: Any, expected: str, *, exact: bool = False, parses: bool = False) -> None:
        super().__init__(expected)
        self._actual, self._expected = type_name(value, exact=exact), expected
        self._converting = (
            f"json: cannot unmarshal {self._actual} into Go value of type {expected}"
            if parses  # The Go type has its own JSON decoder.
            else _conversion_error(value, expected)
        )

    def at(self, location: str) -> SchemaMismatch:
        owner, _, path = location.partition("|")
        where = f"{owner}.{_INDEX.sub('', path)}"
        message = f"json: cannot unmarshal {self._actual} into Go struct field {where} of type {self._expected}"
        return SchemaMismatch(message, self._converting)


def _wrong_object(value: Any, path: str, expected: str) -> Exception:
    return _Inner(value, expected) if path else SchemaMismatch("json: cannot unmarshal into Go value of type struct")


def _conversion_error(value: Any, expected: str) -> str:
    """Return upstream's message for a decoded *value* that cannot be converted to the Go type *expected*."""
    kind = _GO_KINDS.get(value.__class__, "string")
    if expected.startswith("map["):
        return f"cannot restore map from {kind}"
    if expected.startswith("[]"):
        return f"cannot restore slice from {kind}"
    if expected.startswith("v1."):
        return f"cannot restore struct from: {kind}"
    if (expected, kind) in (("string", "int64"), ("int32", "float64"), ("int64", "float64")):
        return f"cannot convert {kind} to {expected}"
    return f"unrecognized type: {expected}"

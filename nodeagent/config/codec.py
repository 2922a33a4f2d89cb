"""Conversion of plain values, as parsed from YAML and JSON, to configuration types and back.

Decoding reports all problems instead of only the first, and is strict about types: a number is not a string.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar, cast

from nodeagent.base.duration import Duration
from nodeagent.base.quantity import Quantity
from nodeagent.base.similarity import most_similar
from nodeagent.config.fields import Shape, is_struct, members
from nodeagent.config.names import KUBELET_FIELDS
from nodeagent.config.unknown import UnknownField
from nodeagent.contracts.configuration import ConfigStruct, NodeAgentConfiguration, TimeOrMetaDuration

Report = Callable[[str, object, str], None]
"""Function that receives path, value and violated rule of a problem."""

T = TypeVar("T", bound=ConfigStruct)
_WRONG = object()
_HEADER = ("apiVersion", "kind")


def child(path: str, key: str | int) -> str:
    """Return the path of a field: ``a`` and ``b`` → ``a.b``; indices and keys with dots are in brackets."""
    if isinstance(key, int) or "." in key or "/" in key:
        return f"{path}[{key}]"
    return f"{path}.{key}" if path else key


def decode(kind: type[T], raw: Mapping[str, Any], report: Report, path: str = "") -> T:
    """Return a *kind* with plain values; absent, null and invalid ones have their default."""
    known = {member.wire: member for member in members(kind)}
    values = {}
    for name, value in raw.items():
        here = child(path, name)
        member = known.get(name)
        if member is None:
            if path or name not in _HEADER:
                report(here, value if isinstance(value, str | int | float | bool) else None, _unknown(name, kind))
        elif value is not None:
            decoded = _read(member.shape, value, here, report)
            if decoded is not _WRONG:
                values[member.attribute] = decoded
    return kind(**values)


def encode(value: Any) -> Any:
    """Return *value* as plain values that :func:`decode` accepts; unset fields are omitted."""
    if isinstance(value, TimeOrMetaDuration):
        return str(value.duration) if value.serialize_as_string else value.duration.nanoseconds
    if isinstance(value, ConfigStruct):
        pairs = ((member.wire, getattr(value, member.attribute)) for member in members(type(value)))
        return {name: encode(inner) for name, inner in pairs if inner is not None}
    if isinstance(value, tuple | list):
        return [encode(item) for item in value]
    if isinstance(value, dict):
        return {key: encode(item) for key, item in value.items()}
    return str(value) if isinstance(value, Duration | Quantity) else value


def nearest(name: str, known: Iterable[str]) -> str:
    """Return the known name that is most similar to *name*, or the empty string."""
    by_fold = {candidate.lower(): candidate for candidate in known}
    if name.lower() in by_fold:
        return by_fold[name.lower()]
    return by_fold.get(most_similar(name.lower(), by_fold, 0.6), "")


def _unknown(name: str, kind: type[ConfigStruct]) -> str:
    native = KUBELET_FIELDS.get(name, "") if kind is NodeAgentConfiguration else ""
    near = native or nearest(name, [member.wire for member in members(kind)])
    return UnknownField.of("is not a known field" + (f"; did you mean {near}?" if near else ""), certain=bool(native))


def _read(shape: Shape, raw: Any, path: str, report: Report) -> Any:
    if is_struct(shape):
        if not isinstance(raw, dict):
            return _wrong(report, path, raw, "must be an object")
        return decode(shape.kind, raw, report, path)
    match shape.kind:
        case kind if kind is tuple:
            return _read_array(cast(Shape, shape.item), raw, path, report)
        case kind if kind is dict:
            return _read_map(cast(Shape, shape.item), raw, path, report)
        case kind if kind is bool:
            return raw if isinstance(raw, bool) else _wrong(report, path, raw, "must be true or false")
        case kind if kind is str:
            hint = "; quote it" if isinstance(raw, int | float) else ""
            return raw if isinstance(raw, str) else _wrong(report, path, raw, f"must be a string{hint}")
        case kind if kind is float:
            valid = isinstance(raw, int | float) and not isinstance(raw, bool)
            return float(raw) if valid else _wrong(report, path, raw, "must be a number")
        case kind if kind is int:
            return _read_int(shape, raw, path, report)
    return _read_text(shape.kind, raw, path, report)


def _read_array(item: Shape, raw: Any, path: str, report: Report) -> Any:
    if not isinstance(raw, list):
        return _wrong(report, path, raw, "must be an array")
    decoded = [_read(item, value, child(path, index), report) for index, value in enumerate(raw)]
    return tuple(value for value in decoded if value is not _WRONG)


def _read_map(item: Shape, raw: Any, path: str, report: Report) -> Any:
    if not isinstance(raw, dict):
        return _wrong(report, path, raw, "must be an object")
    decoded = {key: _read(item, value, child(path, key), report) for key, value in raw.items()}
    return {key: value for key, value in decoded.items() if value is not _WRONG}


def _read_int(shape: Shape, raw: Any, path: str, report: Report) -> Any:
    if isinstance(raw, float) and raw.is_integer():
        raw = int(raw)
    if not isinstance(raw, int) or isinstance(raw, bool):
        return _wrong(report, path, raw, f"must be an integer ({shape.name})")
    if shape.low is not None and shape.high is not None and not shape.low <= raw <= shape.high:
        return _wrong(report, path, raw, f"must be in the range of {shape.name}: {shape.low} to {shape.high}")
    return raw


def _read_text(kind: Any, raw: Any, path: str, report: Report) -> Any:
    """Parse a duration, a quantity, or a duration that may be a number of nanoseconds."""
    whole = isinstance(raw, int) and not isinstance(raw, bool)
    try:
        if kind is Quantity and isinstance(raw, str | int | float) and not isinstance(raw, bool):
            return Quantity.parse(str(raw))
        if kind is TimeOrMetaDuration and whole:
            return TimeOrMetaDuration(duration=Duration(raw), serialize_as_string=False)
        if isinstance(raw, str):
            if kind is TimeOrMetaDuration:
                return TimeOrMetaDuration(duration=Duration.parse(raw))
            return kind.parse(raw)
        if kind is Duration and whole and raw == 0:
            return Duration()
    except ValueError as error:
        return _wrong(report, path, raw, str(error))
    return _wrong(
        report, path, raw, "must be a duration such as 20s or 1h30m" if kind is Duration else "must be a string"
    )


def _wrong(report: Report, path: str, raw: Any, rule: str) -> object:
    report(path, raw if isinstance(raw, str | int | float | bool) else None, rule)
    return _WRONG

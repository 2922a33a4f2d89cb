"""Fast validation of values by simple JSON schemas. No I/O."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any


def is_plainly_valid(value: object, schema: Mapping[str, Any] | bool) -> bool:
    """Return whether *value* is certainly valid by *schema*.

    False for an invalid value, and for schemas or values that a complete validator must decide on: other keywords than
    the most frequent ones, references, dialects, and subclasses of the types of JSON.
    """
    if isinstance(schema, bool):
        return schema
    return all(keyword in _ANNOTATIONS or _meets(keyword, rule, value, schema) for keyword, rule in schema.items())


def _meets(keyword: str, rule: Any, value: Any, schema: Mapping[str, Any]) -> bool:
    kind, check = _CHECKS.get(keyword, (None, None))
    if check is None:
        return False
    if kind is not None and type(value) not in kind:
        return type(value) in _TYPES  # The keyword does not apply.
    return check(rule, value, schema)


def _has_type(rule: Any, value: Any, _schema: Mapping[str, Any]) -> bool:
    names = _TYPES.get(type(value), ())
    return any(name in names for name in ([rule] if isinstance(rule, str) else rule))


def _is_one_of(rule: Any, value: Any, _schema: Mapping[str, Any]) -> bool:
    return any(type(each) is type(value) and each == value for each in rule) and type(value) in (str, int, bool)


def _has_valid_fields(rule: Any, value: Any, _schema: Mapping[str, Any]) -> bool:
    return all(is_plainly_valid(value[name], rule[name]) for name in value if name in rule)


def _has_valid_other_fields(rule: Any, value: Any, schema: Mapping[str, Any]) -> bool:
    if "patternProperties" in schema:
        return False
    others = [value[name] for name in value if name not in schema.get("properties", {})]
    if isinstance(rule, bool):
        return rule or not others
    return all(is_plainly_valid(each, rule) for each in others)


def _are_different_texts(values: list[Any]) -> bool:
    return all(type(each) is str for each in values) and len(set(values)) == len(values)


_TYPES: Mapping[type, tuple[str, ...]] = {
    str: ("string",),
    bool: ("boolean",),
    int: ("integer", "number"),
    float: ("number",),
    list: ("array",),
    dict: ("object",),
    type(None): ("null",),
}
_TEXT, _NUMBER, _LIST, _OBJECT = (str,), (int, float), (list,), (dict,)

_CHECKS: Mapping[str, tuple[tuple[type, ...] | None, Callable[[Any, Any, Mapping[str, Any]], bool]]] = {
    "type": (None, _has_type),
    "enum": (None, _is_one_of),
    "minimum": (_NUMBER, lambda rule, value, _: value >= rule),
    "maximum": (_NUMBER, lambda rule, value, _: value <= rule),
    "exclusiveMinimum": (_NUMBER, lambda rule, value, _: value > rule),
    "exclusiveMaximum": (_NUMBER, lambda rule, value, _: value < rule),
    "pattern": (_TEXT, lambda rule, value, _: re.search(rule, value) is not None),
    "minLength": (_TEXT, lambda rule, value, _: len(value) >= rule),
    "maxLength": (_TEXT, lambda rule, value, _: len(value) <= rule),
    "minItems": (_LIST, lambda rule, value, _: len(value) >= rule),
    "maxItems": (_LIST, lambda rule, value, _: len(value) <= rule),
    "items": (_LIST, lambda rule, value, _: all(is_plainly_valid(each, rule) for each in value)),
    "uniqueItems": (_LIST, lambda rule, value, _: not rule or _are_different_texts(value)),
    "minProperties": (_OBJECT, lambda rule, value, _: len(value) >= rule),
    "required": (_OBJECT, lambda rule, value, _: all(name in value for name in rule)),
    "properties": (_OBJECT, _has_valid_fields),
    "additionalProperties": (_OBJECT, _has_valid_other_fields),
}
"""Types that a keyword applies to, ``None`` for all, and the check of a rule, a value and the schema."""
_ANNOTATIONS = frozenset({"title", "description", "default", "examples", "deprecated", "$comment"})

"""Validators of values, compiled once per schema.

An update reports no errors in values that it does not change (ratcheting): such values are compared with the stored
ones, which are found by field name, and in lists of type map by key.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from apiserver_stub.apimachinery.go_format import go_value
from apiserver_stub.apimachinery.objects import Object
from apiserver_stub.apimachinery.status import Cause, quote, required, too_many
from apiserver_stub.validation.schema_values import causes
from apiserver_stub.validation.schema_values.causes import type_invalid
from apiserver_stub.validation.schema_values.correlation import UNKNOWN, old_field, old_items
from apiserver_stub.validation.schema_values.formats import format_check
from apiserver_stub.validation.schema_values.patterns import matches

Validator = Callable[[Any, str, Any, list[Cause]], int]
"""Validate a value at a path against its stored value, which may be :data:`correlation.UNKNOWN`, and add the errors.

The result is the number of rules that hold, which selects the errors to report if several schemas are possible.
"""
_Rule = Callable[[Any, str, list[Cause]], int]
_TYPES = {str: "string", bool: "boolean", int: "integer", float: "number", dict: "object", list: "array"}
_INTEGER_LIMIT, _EXACT_LIMIT = 1 << 63, (1 << 53) - 1
_FORMATS_OF_TYPES = {int: "int64", float: "float64"}


def validator_of(schema: Object) -> Validator:
    """Return the validator of *schema* (``JSONSchemaProps``)."""
    check_type = _type_check(schema)
    combined = _combination(schema)
    texts, numbers = _text_rules(schema), _number_rules(schema)
    check_list, check_object = _list_check(schema), _object_check(schema)
    check_enum = _enum_check(schema)
    has_type = check_type is not None

    def run(value: Any, path: str, old: Any, errors: list[Cause]) -> int:
        before = len(errors)
        count = 0
        if check_type is not None:
            count += check_type(value, path, errors)
        if value is None:
            if check_enum is not None:
                check_enum(value, path, errors)
            return _ratcheted(value, old, errors, before, count)
        count += has_type + 3  # As upstream counts: the type, the combinations, the enumeration, the schema.
        if combined is not None:
            count += combined(value, path, old, errors)
        kind = value.__class__
        if kind is str:
            count += 1
            for rule in texts:
                rule(value, path, errors)
        elif kind is int or kind is float:
            count += 2
            for rule in numbers:
                rule(value, path, errors)
        elif kind is list:
            count += 2 + check_list(value, path, old, errors)
        if check_enum is not None:
            check_enum(value, path, errors)
        if kind is dict:
            count += 1 + check_object(value, path, old, errors)
        return _ratcheted(value, old, errors, before, count)

    return run


def _ratcheted(value: Any, old: Any, errors: list[Cause], before: int, count: int) -> int:
    """Drop the new errors if *value* is not changed; return *count*."""
    if len(errors) != before and old is not UNKNOWN and value == old:
        del errors[before:]
    return count


def _invalid(path: str, value: Any, detail: str) -> Cause:
    return causes.invalid(path.removeprefix("."), value, f"{path} in body {detail}")


def _wrong_type(path: str, expected: str, actual: str) -> Cause:
    text = f"{path} in body must be of type {expected}: {quote(actual)}"
    return type_invalid(path.removeprefix("."), actual, text)


# Types


def _type_check(schema: Object) -> _Rule | None:
    types: tuple[str, ...] = ("integer", "string") if schema.get("x-kubernetes-int-or-string") else ()
    if not types and (name := schema.get("type")):
        types = (name,)
    format_name = schema.get("format") or ""
    if format_check(format_name) is None:
        format_name = ""
    if not types and not format_name:
        return None
    nullable, expected = bool(schema.get("nullable")), ",".join(types)
    numeric = "number" in types or "integer" in types

    def run(value: Any, path: str, errors: list[Cause]) -> int:
        if value is None:
            if types and not nullable:
                errors.append(_wrong_type(path, expected, "null"))
                return 0
            return 1
        kind = value.__class__
        if kind is int and not -_INTEGER_LIMIT <= value < _INTEGER_LIMIT:
            kind = float  # As the decoder of Go.
        name = _TYPES[kind]
        if name in types:
            return 1
        if (kind is int and "number" in types) or (kind is float and "integer" in types and _is_integer(value)):
            return 1
        if format_name:
            if kind not in (str, list):
                errors.append(_wrong_type(path, format_name, _FORMATS_OF_TYPES.get(kind, "")))
                return 0
            if not numeric:
                return 1
        errors.append(_wrong_type(path, expected, name))
        return 0

    return run


def _is_integer(value: float) -> bool:
    """Return whether *value*, which is not a 64-bit integer in JSON, counts as an integer."""
    return value.__class__ is float and value.is_integer() and abs(value) <= _EXACT_LIMIT


def _enum_check(schema: Object) -> _Rule | None:
    allowed = schema.get("enum")
    if not allowed:
        return None

    def run(value: Any, path: str, errors: list[Cause]) -> int:
        if not any(_is_member(value, item) for item in allowed):
            errors.append(causes.unsupported(path.removeprefix("."), value, allowed))
        return 0

    return run


def _is_member(value: Any, item: Any) -> bool:
    if value is None or item is None:
        return False  # Upstream never compares null.
    if value.__class__ is float and item.__class__ is int:
        return int(value) == item
    return isinstance(value, bool) == isinstance(item, bool) and bool(value == item)


# Texts and numbers


def _text_rules(schema: Object) -> list[_Rule]:
    rules: list[_Rule] = []
    longest, shortest, pattern = schema.get("maxLength"), schema.get("minLength"), schema.get("pattern")
    if longest is not None or shortest is not None or pattern:

        def check(value: str, path: str, errors: list[Cause]) -> int:
            length = len(value)
            if longest is not None and length > longest:
                errors.append(causes.too_long(path.removeprefix("."), longest))
            elif shortest is not None and length < shortest:
                errors.append(_invalid(path, value, f"should be at least {shortest} chars long"))
            elif pattern and not matches(pattern, value):
                errors.append(_invalid(path, value, f"should match '{pattern}'"))
            return 0

        rules.append(check)
    name = schema.get("format") or ""
    if (has_format := format_check(name)) is not None:
        valid = has_format

        def check_format(value: str, path: str, errors: list[Cause]) -> int:
            if not valid(value):
                errors.append(_wrong_type(path, name, value))
            return 0

        rules.append(check_format)
    return rules


def _number_rules(schema: Object) -> list[_Rule]:
    rules: list[_Rule] = []
    if (factor := schema.get("multipleOf")) is not None:
        rules.append(_multiple_rule(factor))
    for name, word, sign in (("maximum", "less", 1), ("minimum", "greater", -1)):
        if (limit := schema.get(name)) is not None:
            rules.append(_limit_rule(limit, word, sign, bool(schema.get(f"exclusive{name.title()}"))))
    return rules


def _multiple_rule(factor: float) -> _Rule:
    def run(value: Any, path: str, errors: list[Cause]) -> int:
        divisor = int(factor) if value.__class__ is int else factor
        if divisor <= 0:
            detail = f"factor MultipleOf declared for {path} must be positive: {go_value(divisor)}"
            errors.append(causes.invalid(path.removeprefix("."), divisor, detail))
        elif value % divisor if divisor >= 1 else not (value / divisor).is_integer():
            errors.append(_invalid(path, value, f"should be a multiple of {go_value(divisor)}"))
        return 0

    return run


def _limit_rule(limit: float, word: str, sign: int, exclusive: bool) -> _Rule:
    wording = f"{word} than" if exclusive else f"{word} than or equal to"

    def run(value: Any, path: str, errors: list[Cause]) -> int:
        bound = int(limit) if value.__class__ is int else limit
        difference = (value - bound) * sign
        if difference > 0 or (exclusive and difference == 0):
            errors.append(_invalid(path, value, f"should be {wording} {go_value(bound)}"))
        return 0

    return run


# Lists and objects


def _list_check(schema: Object) -> Validator:
    items = schema.get("items")
    check_item = validator_of(items) if isinstance(items, dict) else None
    smallest, largest = schema.get("minItems"), schema.get("maxItems")
    unique = bool(schema.get("uniqueItems"))

    def run(value: list[Any], path: str, old: Any, errors: list[Cause]) -> int:
        count = 0
        if check_item is not None:
            before = old_items(schema, value, old)
            for index, item in enumerate(value):
                count += check_item(item, f"{path}[{index}]", before[index] if before else UNKNOWN, errors)
        if smallest is not None and len(value) < smallest:
            errors.append(_sized(path, len(value), f"should have at least {smallest} items"))
        if largest is not None and len(value) > largest:
            errors.append(too_many(path.removeprefix(".") or causes.NO_FIELD, len(value), largest))
        if unique and any(item in value[:index] for index, item in enumerate(value)):
            errors.append(causes.invalid(path.removeprefix("."), "", f"{path} in body shouldn't contain duplicates"))
        return count

    return run


def _sized(path: str, size: int, detail: str) -> Cause:
    return causes.invalid(path.removeprefix("."), size, f"{path} in body {detail}")


def _object_check(schema: Object) -> Validator:
    properties: Mapping[str, Validator] = {
        name: validator_of(content) for name, content in (schema.get("properties") or {}).items()
    }
    additional = schema.get("additionalProperties")
    check_value = validator_of(additional) if isinstance(additional, dict) else None
    names = schema.get("required") or ()
    smallest, largest = schema.get("minProperties"), schema.get("maxProperties")

    def run(value: Object, path: str, old: Any, errors: list[Cause]) -> int:
        count = 0
        if smallest is not None and len(value) < smallest:
            errors.append(_sized(path, len(value), f"should have at least {smallest} properties"))
        if largest is not None and len(value) > largest:
            errors.append(too_many(path.removeprefix(".") or causes.NO_FIELD, len(value), largest))
        for name, content in value.items():
            check = properties.get(name)
            if check is not None:
                own_path = f"{path}.{name}" if path else name
                count += check(content, own_path, old_field(old, name), errors)
            elif check_value is not None:
                count += check_value(content, f"{path}.{name}", old_field(old, name), errors)
            elif additional is False:
                detail = f"{path}.{name} in body is a forbidden property"
                errors.append(causes.invalid(path.removeprefix("."), name, detail))
        for name in names:
            if name not in value:
                errors.append(required(f"{path}.{name}".removeprefix(".")))
        return count

    return run


# Combinations


def _combination(schema: Object) -> Validator | None:
    every, any_, one = ([validator_of(item) for item in schema.get(name) or ()] for name in ("allOf", "anyOf", "oneOf"))
    excluded = schema.get("not")
    check_excluded = validator_of(excluded) if isinstance(excluded, dict) else None
    if not every and not any_ and not one and check_excluded is None:
        return None

    def run(value: Any, path: str, old: Any, errors: list[Cause]) -> int:
        count = 1
        if any_:
            count += _check_any(any_, value, path, old, errors)
        if one:
            count += _check_one(one, value, path, old, errors)
        if every:
            valid = 0
            for check in every:
                before = len(errors)
                count += check(value, path, old, errors)
                valid += len(errors) == before
            if valid < len(every):
                ending = "" if valid else ". None validated"
                errors.append(_mismatch(path, f"must validate all the schemas (allOf){ending}"))
        if check_excluded is not None:
            found: list[Cause] = []
            check_excluded(value, path, old, found)
            if not found:
                errors.append(_mismatch(path, "must not validate the schema (not)"))
        return count

    return run


def _check_any(checks: list[Validator], value: Any, path: str, old: Any, errors: list[Cause]) -> int:
    best: list[Cause] = []
    best_count = -1
    for check in checks:
        found: list[Cause] = []
        count = check(value, path, old, found)
        if not found:
            return count
        if count > best_count:
            best, best_count = found, count
    errors.append(_mismatch(path, "must validate at least one schema (anyOf)"))
    errors += best
    return best_count


def _check_one(checks: list[Validator], value: Any, path: str, old: Any, errors: list[Cause]) -> int:
    best: list[Cause] = []
    best_count, valid, valid_count = -1, 0, 0
    for check in checks:
        found: list[Cause] = []
        count = check(value, path, old, found)
        if not found:
            valid, valid_count = valid + 1, count
        elif count > best_count:
            best, best_count = found, count
    if valid == 1:
        return valid_count
    ending = f"Found {valid} valid alternatives" if valid else "Found none valid"
    errors.append(_mismatch(path, f"must validate one and only one schema (oneOf). {ending}"))
    if not valid:
        errors += best
        return best_count
    return 0


def _mismatch(path: str, detail: str) -> Cause:
    return causes.invalid("", "", f"{quote(path)} {detail}")

"""Validation of the fields by which custom resources can be selected."""

from __future__ import annotations

from collections.abc import Iterator

from apiserver_stub.apimachinery.objects import Object
from apiserver_stub.apimachinery.status import Cause, duplicate, invalid_value, required, too_many
from apiserver_stub.validation.schema_rules.field_paths import field_path_of

_MOST = 8
_TYPES = ("string", "boolean", "integer")
_TYPE_RULE = (
    "must point to a field of type string, boolean or integer. Enum string fields and strings with formats are allowed."
)


def validate_selectable_fields(items: list[Object], schema: Object | None, field: str) -> Iterator[Cause]:
    """Yield the errors in *items*; *schema* is that of the version, or of all versions if they have the same fields."""
    if schema is None:
        if items:
            yield invalid_value(field, "", "may only be set when validations.schema is included")
        return
    known: set[str] = set()
    for index, item in enumerate(items):
        name, path = f"{field}[{index}].jsonPath", item.get("jsonPath") or ""
        if not path:
            yield required(name)
            continue
        found = None if "[" in path else field_path_of(path, schema)
        if found is None:
            yield invalid_value(name, path, "is an invalid path: does not refer to a valid field")
            continue
        if found.partition(".")[0] == "metadata":
            yield invalid_value(name, path, "must not point to fields in metadata")
        if _type_at(found, schema) not in _TYPES:
            yield invalid_value(name, path, _TYPE_RULE)
        if found in known:
            yield duplicate(name, path)
        known.add(found)
    if len(known) > _MOST:
        yield too_many(field, len(known), _MOST)


def _type_at(path: str, schema: Object) -> str:
    for name in path.split("."):
        schema = (schema.get("properties") or {}).get(name) or {}
    return schema.get("type") or ""

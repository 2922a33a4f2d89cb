"""Warnings about formats in schemas of definitions that custom resources are not validated by."""

from __future__ import annotations

from collections.abc import Mapping

from apiserver_stub.apimachinery.objects import Object
from apiserver_stub.apimachinery.status import quote
from apiserver_stub.validation.custom_resource_definitions.walk import schemas_in
from apiserver_stub.validation.schema_values.formats import is_known

_OF_NUMBERS: Mapping[str, tuple[str, ...]] = {"integer": ("int32", "int64"), "number": ("float", "double")}


def format_warnings(new: Object, old: Object | None) -> list[str]:
    """Return a warning for each unrecognized format in *new* that the stored definition *old* does not have."""
    known = set() if old is None else set(_unrecognized(old))
    found = dict.fromkeys(name for name in _unrecognized(new) if name not in known)
    return [f"unrecognized format {quote(name)}" for name in found]


def _unrecognized(definition: Object) -> list[str]:
    return [
        schema["format"]
        for version in definition["spec"].get("versions") or ()
        for schema in schemas_in((version.get("schema") or {}).get("openAPIV3Schema"))
        if schema.get("format") and not _is_recognized(schema["format"], schema.get("type") or "")
    ]


def _is_recognized(name: str, type_: str) -> bool:
    if type_ in ("", "string"):
        return is_known(name)
    return name in _OF_NUMBERS.get(type_, ())

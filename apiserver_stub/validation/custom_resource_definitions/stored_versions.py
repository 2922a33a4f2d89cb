"""Validation of the versions in which custom resources are stored."""

from __future__ import annotations

from apiserver_stub.apimachinery.objects import Object
from apiserver_stub.apimachinery.status import Cause, invalid_value

_FIELD = "status.storedVersions"
_REQUIRED = "must have at least one stored version"


def validate_stored_versions(definition: Object) -> list[Cause]:
    """Return the errors in the stored versions of *definition*, which must include the storage version."""
    stored = (definition.get("status") or {}).get("storedVersions") or []
    if not stored:
        return [Cause("FieldValueInvalid", f"Invalid value: []string(nil): {_REQUIRED}", _FIELD)]
    versions = definition["spec"].get("versions") or ()
    causes = [
        invalid_value(_FIELD, stored, f"must have the storage version {version.get('name')}")
        for version in versions
        if version.get("storage") and version.get("name") not in stored
    ]
    names = {version.get("name") for version in versions}
    return causes + [
        invalid_value(f"{_FIELD}[{index}]", name, "must appear in spec.versions")
        for index, name in enumerate(stored)
        if name not in names
    ]

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
    indexes = {name: index for index, name in enumerate(stored)}
    causes = []
    for version in definition["spec"].get("versions") or ():
        name = version.get("name")
        # Each stored version stands for one version, so that a repeated one is not found again.
        if indexes.pop(name, None) is None and version.get("storage"):
            causes.append(invalid_value(_FIELD, stored, f"must have the storage version {name}"))
    return causes + [
        invalid_value(f"{_FIELD}[{index}]", name, "must appear in spec.versions") for name, index in indexes.items()
    ]

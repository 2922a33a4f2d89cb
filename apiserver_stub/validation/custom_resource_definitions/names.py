"""Validation of the names of custom kinds."""

from __future__ import annotations

from apiserver_stub.apimachinery.objects import Object
from apiserver_stub.apimachinery.status import Cause, invalid_value
from nodeagent.base.names import service_name_problems

_MIXED_CASE = "may have mixed case, but should otherwise match: "


def validate_names(names: Object, field: str) -> list[Cause]:
    """Return the errors in the names of a kind; which of them are required depends on the caller."""
    causes: list[Cause] = []
    for name in ("plural", "singular"):
        if (value := names.get(name)) and (problems := service_name_problems(value)):
            causes.append(invalid_value(f"{field}.{name}", value, ",".join(problems)))
    for name in ("kind", "listKind"):
        if (value := names.get(name)) and (problems := service_name_problems(value.lower())):
            causes.append(invalid_value(f"{field}.{name}", value, _MIXED_CASE + ",".join(problems)))
    causes += _validate_each(names, "shortNames", field)
    kind = names.get("kind")
    if kind and kind == names.get("listKind"):
        causes.append(invalid_value(f"{field}.listKind", kind, "kind and listKind may not be the same"))
    return causes + _validate_each(names, "categories", field)


def _validate_each(names: Object, name: str, field: str) -> list[Cause]:
    return [
        invalid_value(f"{field}.{name}[{index}]", value, ",".join(problems))
        for index, value in enumerate(names.get(name) or ())
        if (problems := service_name_problems(value))
    ]

"""Validation of paths and modes of files in volumes."""

from __future__ import annotations

from apiserver_stub.apimachinery.objects import Object
from apiserver_stub.apimachinery.status import Cause, invalid_value

_MODE_RULE = "must be a number between 0 and 0777 (octal), both inclusive"


def validate_no_backsteps(path: str, field: str) -> list[Cause]:
    """Return the error in a path that contains a parent directory."""
    if ".." in path and ".." in path.split("/"):
        return [invalid_value(field, path, "must not contain '..'")]
    return []


def validate_descending_path(path: str, field: str) -> list[Cause]:
    """Return the errors in a path that must be relative and stay below its base directory."""
    causes = [invalid_value(field, path, "must be a relative path")] if path.startswith("/") else []
    return causes + validate_no_backsteps(path, field)


def validate_local_path(path: str, field: str) -> list[Cause]:
    """Return the errors in the path of a file in a volume, which must not begin with two dots either."""
    causes = validate_descending_path(path, field)
    if path.startswith("..") and not path.startswith("../"):
        causes.append(invalid_value(field, path, "must not start with '..'"))
    return causes


def validate_mode(obj: Object, name: str, field: str) -> list[Cause]:
    """Return the error in the file mode that *obj*, located at *field*, has as *name*."""
    mode = obj.get(name)
    if mode is None or 0 <= mode <= 0o777:
        return []
    return [invalid_value(f"{field}.{name}", mode, _MODE_RULE)]

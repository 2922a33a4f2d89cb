"""Validation of config maps, and the rules that they share with secrets: keys, total size, immutable data."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from apiserver_stub.apimachinery.objects import Object
from apiserver_stub.apimachinery.status import Cause, forbidden_value, invalid_each, invalid_value, too_long
from nodeagent.base.names import config_key_problems

SIZE_LIMIT_BYTES = 1 << 20
_IMMUTABLE = "field is immutable when `immutable` is set"


def validate_config_map(config_map: Object) -> list[Cause]:
    """Return the errors in the data of a config map."""
    texts: Mapping[str, str] = config_map.get("data") or {}
    binary: Mapping[str, str] = config_map.get("binaryData") or {}
    causes = validate_keys(texts, "data")
    for key in texts.keys() & binary.keys() if binary else ():
        causes.append(invalid_value(f"data[{key}]", key, "duplicate of key present in binaryData"))
    causes += validate_keys(binary, "binaryData")
    size = sum(len(text) if text.isascii() else len(text.encode()) for text in texts.values())
    if size + decoded_size(binary.values()) > SIZE_LIMIT_BYTES:
        causes.append(too_long("", SIZE_LIMIT_BYTES))
    return causes


def validate_keys(data: Iterable[str], field: str) -> list[Cause]:
    """Return the errors in the keys of a map, which become file names."""
    causes: list[Cause] = []
    for key in data:
        if problems := config_key_problems(key):
            causes += invalid_each(f"{field}[{key}]", key, problems)
    return causes


def decoded_size(values: Iterable[str]) -> int:
    """Return how many bytes the base64 texts *values* stand for."""
    return sum(len(value) // 4 * 3 - value.count("=", -2) for value in values)


def validate_immutable_data(new: Object, old: Object, fields: Sequence[str]) -> list[Cause]:
    """Return the errors of an update that changes *fields* although the object is immutable."""
    if not old.get("immutable"):
        return []
    causes = [] if new.get("immutable") else [forbidden_value("immutable", _IMMUTABLE)]
    return causes + [
        forbidden_value(name, _IMMUTABLE) for name in fields if (new.get(name) or {}) != (old.get(name) or {})
    ]

"""API objects: JSON encoding in storage order, keys, generated names, UIDs and times."""

from __future__ import annotations

import random
import re
import time
from collections.abc import Iterable
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any

import msgspec

Object = dict[str, Any]

decode = msgspec.json.Decoder().decode
_encode = msgspec.json.Encoder().encode

_SUFFIX_ALPHABET = "bcdfghjklmnpqrstvwxz2456789"
_SUFFIXES = len(_SUFFIX_ALPHABET) ** 5
_GENERATIONS = 1 << 63
_PAIRS = [one + other for one in _SUFFIX_ALPHABET for other in _SUFFIX_ALPHABET]
_RFC3339 = re.compile(r"(\d{4}-\d\d-\d\d)T(\d\d:\d\d:\d\d)(\.\d+)?(Z|[+-]\d\d:\d\d)")


def encode_for_store(obj: Object) -> bytes:
    """Return *obj* in the storage format: kind, apiVersion and metadata come first, without resourceVersion."""
    ordered = {"kind": "", "apiVersion": "", "metadata": {}, **obj}
    if "resourceVersion" in (metadata := obj["metadata"]):
        ordered["metadata"] = {key: value for key, value in metadata.items() if key != "resourceVersion"}
    return _encode(ordered)


def encode(obj: Any) -> bytes:
    """Return *obj* as compact JSON."""
    return _encode(obj)


def clone(value: Any) -> Any:
    """Return a deep copy of *value*, which consists of JSON types."""
    kind = value.__class__
    if kind is dict:
        return {name: clone(item) for name, item in value.items()}
    return [clone(item) for item in value] if kind is list else value


def key_of(namespace: str, name: str) -> str:
    """Return the key in a collection: ``namespace/name``, or the name for cluster-scoped objects."""
    return f"{namespace}/{name}" if namespace else name


def dig(obj: Any, path: Iterable[str]) -> Any:
    """Return the value at *path*, ``None`` if there is none."""
    for part in path:
        if not isinstance(obj, dict):
            return None
        obj = obj.get(part)
    return obj


def new_uid() -> str:
    """Return a random UUID of version 4, which is unique but not secret."""
    digits = random.randbytes(15).hex()  # noqa: S311 - uniqueness, not secrecy
    return f"{digits[:8]}-{digits[8:12]}-4{digits[12:15]}-8{digits[15:18]}-{digits[18:]}"


def name_suffix() -> str:
    """Return five random characters, the suffix of generated names."""
    number = int(random.random() * _SUFFIXES)  # noqa: S311 - uniqueness, not secrecy
    number, first = divmod(number, len(_PAIRS))
    last, second = divmod(number, len(_PAIRS))
    return _PAIRS[first] + _PAIRS[second] + _SUFFIX_ALPHABET[last]


def next_generation(metadata: Object) -> int:
    """Return the generation after a change of the desired state; like upstream's, it is an integer of 64 bits."""
    number: int = (metadata.get("generation") or 0) + 1
    return number if number < _GENERATIONS else -_GENERATIONS


def now() -> str:
    """Return the current time in the format of objects, with a resolution of seconds."""
    return _second(int(time.time()))


def now_micro() -> str:
    """Return the current time in the format of objects, with microseconds."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


@lru_cache(maxsize=2)
def _second(seconds: int) -> str:
    return format_time(datetime.fromtimestamp(seconds, UTC))


def format_time(timestamp: datetime) -> str:
    return timestamp.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def parse_time(text: Any) -> datetime | None:
    """Return the time in the RFC 3339 text *text*, ``None`` if it is invalid."""
    if not isinstance(text, str) or not (match := _RFC3339.fullmatch(text)):
        return None
    date, clock, fraction, zone = match.groups()
    try:
        timestamp = datetime.fromisoformat(f"{date}T{clock}{(fraction or '')[:7]}{zone}")
        timestamp.astimezone(UTC)  # Fails at both ends of the calendar if UTC has no date.
        return timestamp
    except (ValueError, OverflowError):
        return None

"""Comparison, hashes and scaled numbers in specs of workload kinds. No I/O."""

from __future__ import annotations

import hashlib
from typing import Any

import msgspec

from nodeagent.base.gointeger import parse_digits

_encode = msgspec.json.Encoder(order="deterministic").encode
_ALPHABET = "bcdfghjklmnpqrstvwxz2456789"


def pruned(value: Any) -> Any:
    """Return *value* without nulls and empty objects and lists, which mean the same as absent fields."""
    if isinstance(value, dict):
        content = {name: pruned(item) for name, item in value.items()}
        return {name: item for name, item in content.items() if item is not None and item not in ({}, [])}
    if isinstance(value, list):
        return [pruned(item) for item in value]
    return value


def same(one: Any, other: Any) -> bool:
    """Return whether two values are equal, apart from nulls and empty objects and lists."""
    return bool(pruned(one) == pruned(other))


def short_hash(value: Any, collisions: int | None = None) -> str:
    """Return a hash of *value* for names and labels; *collisions* selects another one after a collision."""
    data = _encode(pruned(value)) + (b"" if collisions is None else collisions.to_bytes(4, "little"))
    number = int.from_bytes(hashlib.blake2s(data, digest_size=4).digest(), "big")
    return "".join(_ALPHABET[ord(digit) % len(_ALPHABET)] for digit in str(number))


def scaled(value: Any, total: int, *, up: bool) -> int:
    """Return the number *value*, or the percentage *value* of *total*, rounded up or down; 0 without a value."""
    if value is None:
        return 0
    if not isinstance(value, str):
        return int(value)
    part = (parse_digits(value[:-1]) or 0) * total
    return -(-part // 100) if up else part // 100

"""Conversion of flag arguments to the plain values of a file."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from nodeagent.base.duration import Duration
from nodeagent.base.gates import parse_gates
from nodeagent.base.quantity import Quantity
from nodeagent.config.fields import Shape
from nodeagent.config.names import ENFORCEMENTS
from nodeagent.contracts.configuration import TimeOrMetaDuration

Reader = Callable[[Sequence[str]], Any]

_TRUE = frozenset(("1", "t", "T", "true", "TRUE", "True"))
_FALSE = frozenset(("0", "f", "F", "false", "FALSE", "False"))


def reader(path: str, shape: Shape) -> Reader | None:
    """Return the reader for the flag of the field at *path*, or ``None`` if its type has none."""
    if path in _SPECIAL:
        return _SPECIAL[path]
    if shape.kind is tuple and shape.item and shape.item.kind is str:
        return strings
    if shape.kind is dict and shape.item and shape.item.kind is str:
        return pairs
    return {
        bool: boolean,
        int: integer,
        float: number,
        str: last,
        Duration: last,
        Quantity: last,
        TimeOrMetaDuration: last,
    }.get(shape.kind)


def last(texts: Sequence[str]) -> str:
    """Return the last argument."""
    return texts[-1]


def boolean(texts: Sequence[str]) -> bool:
    """Parse a boolean: ``true``, ``t``, ``1`` and their opposites."""
    if texts[-1] in _TRUE:
        return True
    if texts[-1] in _FALSE:
        return False
    raise ValueError("must be true or false")


def integer(texts: Sequence[str]) -> int:
    """Parse an integer."""
    text = texts[-1]
    if not text.removeprefix("-").isdecimal() or not text.isascii() or len(text) > 30:
        raise ValueError("must be an integer")
    return int(text)


def number(texts: Sequence[str]) -> float:
    """Parse a number."""
    try:
        return float(texts[-1])
    except ValueError:
        raise ValueError("must be a number") from None


def strings(texts: Sequence[str]) -> list[str]:
    """Parse ``a,b``; an empty argument is an empty list."""
    return list(_items(texts))


def pairs(texts: Sequence[str], separator: str = "=") -> dict[str, str]:
    """Parse ``a=1,b=2``; an empty argument is an empty map."""
    result = {}
    for item in _items(texts):
        key, found, value = item.partition(separator)
        if not found or not key.strip():
            raise ValueError(f"has the item {item!r}, must be KEY{separator}VALUE")
        result[key.strip()] = value.strip()
    return result


def _thresholds(texts: Sequence[str]) -> dict[str, str]:
    return pairs(texts, "<")


def _enforcements(texts: Sequence[str]) -> list[str]:
    return [ENFORCEMENTS.get(entry, entry) for entry in _items(texts)]


def _gates(texts: Sequence[str]) -> dict[str, bool]:
    return {name: on for text in texts for name, on in parse_gates(text).items()}


def _headers(texts: Sequence[str]) -> dict[str, list[str]]:
    """Parse ``name:value,…``; errors do not quote an item, because it may be a secret."""
    result: dict[str, list[str]] = {}
    for item in _items(texts):
        name, colon, value = item.partition(":")
        if not colon or not name.strip():
            raise ValueError("has an item that is not NAME:VALUE")
        result.setdefault(name.strip(), []).append(value.strip())
    return result


def _taints(texts: Sequence[str]) -> list[dict[str, str]]:
    """Parse ``key=value:effect,…``."""
    result = []
    for item in _items(texts):
        front, colon, effect = item.rpartition(":")
        key, _, value = front.partition("=")
        if not colon or not key:
            raise ValueError(f"has the item {item!r}, must be KEY=VALUE:EFFECT")
        result.append({"key": key, "value": value, "effect": effect})
    return result


def _reserved_memory(texts: Sequence[str]) -> list[dict[str, Any]]:
    """Parse ``0:memory=1Gi,hugepages-2M=2Gi;1:memory=1Gi``."""
    result: list[dict[str, Any]] = []
    for item in filter(None, (part.strip() for text in texts for part in text.split(";"))):
        node, colon, limits = item.partition(":")
        if not colon:
            raise ValueError(f"has the item {item!r}, must be NODE:TYPE=AMOUNT,…")
        result.append({"numaNode": integer([node.strip()]), "limits": pairs([limits])})
    return result


def _vmodule(texts: Sequence[str]) -> list[dict[str, Any]]:
    return [
        {"filePattern": pattern, "verbosity": integer([threshold])} for pattern, threshold in pairs([texts[-1]]).items()
    ]


def _items(texts: Sequence[str]) -> Iterator[str]:
    return filter(None, (item.strip() for text in texts for item in text.split(",")))


_SPECIAL: dict[str, Reader] = {
    "evictionHard": _thresholds,
    "evictionSoft": _thresholds,
    "enforceNodeAllocatable": _enforcements,
    "featureGates": _gates,
    "staticPodURLHeader": _headers,
    "registerWithTaints": _taints,
    "reservedMemory": _reserved_memory,
    "logging.vmodule": _vmodule,
}

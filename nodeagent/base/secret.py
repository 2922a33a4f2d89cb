"""Secret values that never appear in output."""

from __future__ import annotations

import hmac
from typing import Generic, NoReturn, TypeVar

T = TypeVar("T", str, bytes)

MASK = "***"


class Secret(Generic[T]):
    """Password, token or key; only :meth:`reveal` returns its value.

    It is not a ``str``, so that joining, encoding or pickling it by accident fails instead of leaking it.
    """

    __slots__ = ("_value",)

    def __init__(self, value: T) -> None:
        self._value: T = value

    def reveal(self) -> T:
        """Return the value, for the code that needs it."""
        return self._value

    def __str__(self) -> str:
        return MASK

    def __repr__(self) -> str:
        return MASK

    def __format__(self, spec: str) -> str:
        return MASK

    def __bool__(self) -> bool:
        return bool(self._value)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Secret):
            return NotImplemented
        return hmac.compare_digest(_raw(self._value), _raw(other._value))

    def __hash__(self) -> int:
        return hash(self._value)

    def __reduce__(self) -> NoReturn:
        raise TypeError("a secret cannot be serialized")


def _raw(value: str | bytes) -> bytes:
    return value.encode(errors="surrogateescape") if isinstance(value, str) else value

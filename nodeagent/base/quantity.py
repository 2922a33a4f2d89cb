"""Resource quantities in the format of the API: ``100m``, ``1.5Gi``, ``1e3``, ``10M``.

Custom, since ``parse_quantity`` of the ``kubernetes`` package cannot write quantities and imports the client.
"""

from __future__ import annotations

import functools
import re
from enum import Enum
from typing import Self

_NANO = 10**9
_MAX_NANOS = (2**63 - 1) * _NANO
_MAX_TEXT = 200
_TEXT = re.compile(
    r"(?P<sign>[+-]?)(?P<whole>\d*)(?:\.(?P<fraction>\d*))?"
    r"(?:(?P<binary>[KMGTPE]i)|[eE](?P<exponent>[+-]?\d+)|(?P<decimal>[numkMGTPE]?))",
    re.ASCII,
)
_DECIMAL_EXPONENTS = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_DECIMAL_SUFFIXES = {exponent: suffix for suffix, exponent in _DECIMAL_EXPONENTS.items()}
_BINARY_SUFFIXES = ("", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei")
_FAR = 60
"""Larger exponents in either direction reach the maximum or minimum quantity for any digits."""


class Format(Enum):
    """Family of suffixes in which a quantity was written, and is formatted."""

    DECIMAL = "decimal"
    BINARY = "binary"
    EXPONENT = "exponent"


@functools.total_ordering
class Quantity:
    """Exact quantity with nano precision, at most ±(2⁶³-1).

    Immutable; equality, order and hash follow the amount, not the suffix. ``str()`` returns the canonical text: no
    fraction, and the largest suffix that represents the amount exactly.
    """

    __slots__ = ("_format", "_nanos")

    def __init__(self, amount: int = 0, *, nanos: int = 0, format: Format = Format.DECIMAL) -> None:
        total = amount * _NANO + nanos
        self._nanos = max(-_MAX_NANOS, min(_MAX_NANOS, total))
        self._format = format

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parse a quantity; finer than nano is rounded away from zero, larger than the maximum becomes the maximum.

        :raises ValueError: *text* is not a quantity; the message is a predicate.
        """
        match = _TEXT.fullmatch(text) if len(text) <= _MAX_TEXT else None
        if match is None or not (match["whole"] or match["fraction"]):
            raise ValueError("is not a quantity such as 100m, 1.5Gi or 10M")
        fraction = match["fraction"] or ""
        digits = int((match["whole"] or "0") + fraction)
        exponent, factor, style = 9 - len(fraction), 1, Format.DECIMAL
        if match["binary"]:
            factor, style = 1024 ** _BINARY_SUFFIXES.index(match["binary"]), Format.BINARY
        elif match["exponent"]:
            exponent, style = exponent + int(match["exponent"]), Format.EXPONENT
        else:
            exponent += _DECIMAL_EXPONENTS[match["decimal"]]
        nanos = _scale(digits * factor, exponent)
        if style is Format.BINARY and nanos < _NANO:
            style = Format.DECIMAL
        return cls(nanos=-nanos if match["sign"] == "-" else nanos, format=style)

    @property
    def nanos(self) -> int:
        """Exact amount in billionths."""
        return self._nanos

    @property
    def format(self) -> Format:
        return self._format

    def value(self) -> int:
        """Return the amount as an integer, rounded away from zero."""
        return _divide_up(self._nanos, _NANO)

    def milli_value(self) -> int:
        """Return the amount in thousandths (``250m`` CPU is 250), rounded away from zero."""
        return _divide_up(self._nanos, 10**6)

    def __str__(self) -> str:
        whole, rest = divmod(abs(self._nanos), _NANO)
        sign = "-" if self._nanos < 0 else ""
        if self._format is Format.BINARY and not rest and whole >= 1024:
            zeros = (whole & -whole).bit_length() - 1  # At the end of the binary number.
            power = min(zeros // 10, len(_BINARY_SUFFIXES) - 1)
            return f"{sign}{whole >> 10 * power}{_BINARY_SUFFIXES[power]}"
        amount, exponent = abs(self._nanos), -9
        if amount == 0:
            return "0"
        while exponent < 18 and amount % 1000 == 0:
            amount, exponent = amount // 1000, exponent + 3
        if self._format is Format.EXPONENT:
            return f"{sign}{amount}e{exponent}" if exponent else f"{sign}{amount}"
        return f"{sign}{amount}{_DECIMAL_SUFFIXES[exponent]}"

    def __repr__(self) -> str:
        return f"Quantity({str(self)!r})"

    def __bool__(self) -> bool:
        return self._nanos != 0

    def __add__(self, other: Quantity) -> Quantity:
        return Quantity(nanos=self._nanos + other._nanos, format=self._format if self else other._format)

    def __sub__(self, other: Quantity) -> Quantity:
        return Quantity(nanos=self._nanos - other._nanos, format=self._format if self else other._format)

    def __mul__(self, times: int) -> Quantity:
        return Quantity(nanos=self._nanos * times, format=self._format)

    def __neg__(self) -> Quantity:
        return Quantity(nanos=-self._nanos, format=self._format)

    def __eq__(self, other: object) -> bool:
        return self._nanos == other._nanos if isinstance(other, Quantity) else NotImplemented

    def __lt__(self, other: Quantity) -> bool:
        return self._nanos < other._nanos if isinstance(other, Quantity) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._nanos)


def parse_quantity(text: str) -> Quantity:
    """Parse a quantity (see :meth:`Quantity.parse`)."""
    return Quantity.parse(text)


def size_text(size_bytes: int) -> str:
    """Return a human-readable size with at most four digits: ``45.2 MiB``."""
    amount = float(size_bytes)
    for unit in ("B", "KiB", "MiB", "GiB", "TiB"):
        if amount < 1024:
            return f"{amount:.4g} {unit}"
        amount /= 1024
    return f"{amount:.4g} PiB"


def _scale(digits: int, exponent: int) -> int:
    """Return ``digits · 10^exponent`` in integral nanos, rounded up, without creating a huge number."""
    if digits == 0:
        return 0
    if exponent > _FAR:
        return _MAX_NANOS
    if exponent >= 0:
        return min(digits * int(10**exponent), _MAX_NANOS)
    if -exponent > _MAX_TEXT + _FAR:
        return 1
    return min(_divide_up(digits, int(10**-exponent)), _MAX_NANOS)


def _divide_up(amount: int, unit: int) -> int:
    """Divide and round away from zero."""
    return -(-amount // unit) if amount >= 0 else amount // unit

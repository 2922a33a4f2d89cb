"""Durations in the format of configuration files: ``20s``, ``1h30m``, ``1.5h``, ``100ms``.

Custom, since ``durationpy`` calculates in floats and loses nanoseconds.
"""

from __future__ import annotations

import functools
import re
from typing import Self

_UNITS = {
    "ns": 1,
    "us": 1_000,
    "µs": 1_000,  # micro sign
    "μs": 1_000,  # Greek mu
    "ms": 1_000_000,
    "s": 1_000_000_000,
    "m": 60_000_000_000,
    "h": 3_600_000_000_000,
}
_PART = re.compile(r"(\d*)(?:\.(\d*))?(ns|us|µs|μs|ms|s|m|h)", re.ASCII)
_MAX_NANOSECONDS = 2**63 - 1
_MAX_TEXT = 100


@functools.total_ordering
class Duration:
    """Signed duration with nanosecond precision, within ±292 years.

    Immutable; equality, order and hash follow the length. ``str()`` returns the canonical text, which parses to the
    same value.
    """

    __slots__ = ("_nanoseconds",)

    def __init__(self, nanoseconds: int = 0) -> None:
        if not -_MAX_NANOSECONDS <= nanoseconds <= _MAX_NANOSECONDS:
            raise ValueError("is too long for a duration")
        self._nanoseconds = nanoseconds

    @classmethod
    def of(cls, *, hours: float = 0, minutes: float = 0, seconds: float = 0, milliseconds: float = 0) -> Self:
        """Return the sum of the arguments."""
        return cls(
            round(hours * 3_600_000_000_000)
            + round(minutes * 60_000_000_000)
            + round(seconds * 1_000_000_000)
            + round(milliseconds * 1_000_000)
        )

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parse ``[-+]`` and a sum of decimal numbers with units (``ns us ms s m h``); ``0`` needs no unit.

        :raises ValueError: *text* is not a duration; the message is a predicate such as ``is not a duration …``.
        """
        sign, rest = (-1, text[1:]) if text.startswith("-") else (1, text.removeprefix("+"))
        if rest == "0":
            return cls(0)
        total, position = 0, 0
        while position < len(rest) <= _MAX_TEXT:
            part = _PART.match(rest, position)
            if part is None or not (part[1] or part[2]):
                break
            whole, fraction, unit = part[1] or "0", part[2] or "", _UNITS[part[3]]
            total += int(whole) * unit
            if fraction:
                total += int(fraction) * unit // 10 ** len(fraction)
            position = part.end()
        if position == 0 or position != len(rest):
            raise ValueError("is not a duration such as 20s, 100ms or 1h30m")
        return cls(sign * total)

    @property
    def nanoseconds(self) -> int:
        """Exact length in nanoseconds."""
        return self._nanoseconds

    @property
    def seconds(self) -> float:
        """Length in seconds, for clocks and timeouts."""
        return self._nanoseconds / 1_000_000_000

    def __str__(self) -> str:
        total = abs(self._nanoseconds)
        sign = "-" if self._nanoseconds < 0 else ""
        if total == 0:
            return "0s"
        if total < 1_000:
            return f"{sign}{total}ns"
        if total < 1_000_000:
            return f"{sign}{_decimal(total, 1_000)}µs"
        if total < 1_000_000_000:
            return f"{sign}{_decimal(total, 1_000_000)}ms"
        minutes, rest = divmod(total, _UNITS["m"])
        hours, minutes = divmod(minutes, 60)
        text = f"{_decimal(rest, _UNITS['s'])}s"
        if hours:
            text = f"{hours}h{minutes}m{text}"
        elif minutes:
            text = f"{minutes}m{text}"
        return sign + text

    def __repr__(self) -> str:
        return f"Duration({str(self)!r})"

    def __bool__(self) -> bool:
        return self._nanoseconds != 0

    def __eq__(self, other: object) -> bool:
        return self._nanoseconds == other._nanoseconds if isinstance(other, Duration) else NotImplemented

    def __lt__(self, other: Duration) -> bool:
        return self._nanoseconds < other._nanoseconds if isinstance(other, Duration) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._nanoseconds)


def parse_duration(text: str) -> Duration:
    """Parse a duration (see :meth:`Duration.parse`)."""
    return Duration.parse(text)


def _decimal(amount: int, unit: int) -> str:
    """Return ``amount / unit`` without trailing zeros; *unit* is a power of ten."""
    whole, rest = divmod(amount, unit)
    if not rest:
        return str(whole)
    digits = str(rest).rjust(len(str(unit)) - 1, "0").rstrip("0")
    return f"{whole}.{digits}"

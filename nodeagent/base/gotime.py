"""Times of API objects as Go reads and writes them, for every year from 0 to 9999. No I/O.

:mod:`datetime` has no year 0 and no time that would be in it in UTC; Go also accepts hours of one digit, and its errors
are the ones that clients see.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NamedTuple

from nodeagent.base.text_cache import text_cache

RFC3339, RFC3339_MICRO = "2006-01-02T15:04:05Z07:00", "2006-01-02T15:04:05.000000Z07:00"
ZERO_SECONDS = -62_135_596_800
"""Go's zero time, January 1 of year 1, in seconds since 1970; JSON shows it as ``null``."""

LEAST_SECONDS, MOST_SECONDS = -62_167_219_200, 253_402_300_799
"""First second of year 0 and last second of year 9999: the range of RFC 3339."""

_USUAL = re.compile(
    r"(\d{4})-(0[1-9]|1[0-2])-(0[1-9]|[12]\d|3[01])T([01]\d|2[0-3]):([0-5]\d):([0-5]\d)(?:\.(\d+))?Z", re.ASCII
)
_DAY_SECONDS = 86_400
_MONTH_DAYS = (31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)
_RANGES = {"01": ("month", 1, 12), "15": ("hour", 0, 23), "04": ("minute", 0, 59), "05": ("second", 0, 59)}
_ELEMENTS = re.compile(r"2006|01|02|15|04|05|\.000000|Z07:00|.")


class ParseError(ValueError):
    """A text is not a time in the layout; the message is Go's."""


class Instant(NamedTuple):
    """A point in time; *nanos* is never negative."""

    seconds: int
    """Since 1970, in UTC."""
    nanos: int = 0


@text_cache(512)
def parse(text: str, layout: str = RFC3339) -> Instant:
    """Return the time that *text* specifies in *layout*, one of the two of this module.

    :raises ParseError: it is not a time in this layout.
    """
    match = _USUAL.fullmatch(text)
    if match is not None and (layout is RFC3339 or len(match[7] or "") == 6):
        year, month, day, hour, minute, second = map(int, match.groups()[:6])
        if day <= 28 or day <= _days_in(year, month):
            return Instant(_seconds(year, month, day, hour, minute, second), int((match[7] or "0")[:9].ljust(9, "0")))
    return _Parser(text, layout).run()


@lru_cache(maxsize=512)
def render(seconds: int, micros: int | None = None) -> str:
    """Return the RFC 3339 text of *seconds* since 1970 in UTC, with a fraction of six digits where *micros* is set."""
    days, rest = divmod(seconds, _DAY_SECONDS)
    year, month, day = _civil(days)
    fraction = "" if micros is None else f".{micros:06d}"
    sign = "-" if year < 0 else ""
    clock = f"{rest // 3600:02d}:{rest % 3600 // 60:02d}:{rest % 60:02d}"
    return f"{sign}{abs(year):04d}-{month:02d}-{day:02d}T{clock}{fraction}Z"


class _Parser:
    """One pass over a text, element by element of the layout."""

    def __init__(self, text: str, layout: str) -> None:
        self._text, self._layout = text, layout
        self._rest = text
        self._nanos = 0

    def run(self) -> Instant:
        values: dict[str, int] = {}
        for element in _ELEMENTS.findall(self._layout):
            if element == "2006":
                values[element] = self._year()
            elif element == ".000000":
                self._fraction_of_layout(element)
            elif element == "Z07:00":
                values[element] = self._zone(element)
            elif element.isdigit():
                values[element] = self._number(element)
                if element == "05" and self._layout == RFC3339:
                    self._fraction()
            elif self._rest.startswith(element):
                self._rest = self._rest[1:]
            else:
                raise self._cannot(element)
        if self._rest:
            raise ParseError(f"parsing time {_quote(self._text)}: extra text: {_quote(self._rest)}")
        year, month, day = values["2006"], values["01"], values["02"]
        if not 1 <= day <= _days_in(year, month):
            raise self._out_of_range("day")
        local = _seconds(year, month, day, values["15"], values["04"], values["05"])
        return Instant(local - values["Z07:00"], self._nanos)

    def _year(self) -> int:
        text = self._rest[:4]
        if not (len(text) == 4 and text.isascii() and text.isdigit()):
            raise self._cannot("2006")
        self._rest = self._rest[4:]
        return int(text)

    def _number(self, element: str) -> int:
        """Read two digits; only hours may have one."""
        match = re.match(r"\d\d|\d" if element == "15" else r"\d\d", self._rest, re.ASCII)
        if match is None:
            raise self._cannot(element)
        self._rest = self._rest[match.end() :]
        number = int(match[0])
        if element in _RANGES:
            name, least, most = _RANGES[element]
            if not least <= number <= most:
                raise self._out_of_range(name)
        return number

    def _fraction(self) -> None:
        """Read a fraction that the layout does not have."""
        if (match := re.match(r"[.,](\d+)", self._rest, re.ASCII)) is not None:
            self._nanos = int(match[1][:9].ljust(9, "0"))
            self._rest = self._rest[match.end() :]

    def _fraction_of_layout(self, element: str) -> None:
        match = re.match(r"[.,](\d{6})", self._rest, re.ASCII)
        if match is None:
            raise self._cannot(element)
        self._nanos = int(match[1]) * 1000
        self._rest = self._rest[7:]

    def _zone(self, element: str) -> int:
        """Return the offset from UTC in seconds."""
        if self._rest.startswith("Z"):
            self._rest = self._rest[1:]
            return 0
        match = re.match(r"(.)(\d\d):(\d\d)", self._rest, re.ASCII | re.DOTALL)
        if match is None:
            raise self._cannot(element)
        hours, minutes = int(match[2]), int(match[3])
        held, self._rest = self._rest, self._rest[match.end() :]
        if match[1] not in ("+", "-"):
            self._rest = held
            raise self._cannot(element)
        return (hours * 3600 + minutes * 60) * (-1 if match[1] == "-" else 1)

    def _cannot(self, element: str) -> ParseError:
        return ParseError(
            f"parsing time {_quote(self._text)} as {_quote(self._layout)}: "
            f"cannot parse {_quote(self._rest)} as {_quote(element)}"
        )

    def _out_of_range(self, name: str) -> ParseError:
        return ParseError(f"parsing time {_quote(self._text)}: {name} out of range")


def _quote(text: str) -> str:
    found = []
    for character in text:
        if character < " " or character >= "\x80":
            found += [f"\\x{byte:02x}" for byte in character.encode("utf-8", "surrogatepass")]
        else:
            found.append("\\" + character if character in '"\\' else character)
    return f'"{"".join(found)}"'


# The calendar


def _days_in(year: int, month: int) -> int:
    leap = year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
    return 29 if month == 2 and leap else _MONTH_DAYS[month - 1]


def _seconds(year: int, month: int, day: int, hour: int, minute: int, second: int) -> int:
    return _days(year, month, day) * _DAY_SECONDS + hour * 3600 + minute * 60 + second


def _days(year: int, month: int, day: int) -> int:
    """Return the days since 1970 in the Gregorian calendar, counted in eras of 400 years that start in March."""
    year -= month <= 2
    era, year_of_era = divmod(year, 400)
    day_of_year = (153 * ((month - 3) % 12) + 2) // 5 + day - 1
    return era * 146_097 + year_of_era * 365 + year_of_era // 4 - year_of_era // 100 + day_of_year - 719_468


def _civil(days: int) -> tuple[int, int, int]:
    era, day_of_era = divmod(days + 719_468, 146_097)
    year = (day_of_era - day_of_era // 1460 + day_of_era // 36_524 - day_of_era // 146_096) // 365
    day_of_year = day_of_era - (365 * year + year // 4 - year // 100)
    shifted = (5 * day_of_year + 2) // 153
    month = shifted + 3 if shifted < 10 else shifted - 9
    return era * 400 + year + (month <= 2), month, day_of_year - (153 * shifted + 2) // 5 + 1

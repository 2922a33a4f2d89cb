"""Cron schedules: parser and computation of times. No I/O, except that time zones are read from the host."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, tzinfo
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from apiserver_stub.apimachinery.status import quote
from nodeagent.base.duration import parse_duration
from nodeagent.base.structs import Struct

_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_DAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
_DESCRIPTORS = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
_EVERY = "@every "
_MAX_YEARS = 5
"""A schedule without a time within these years, such as February 30, has none."""


class CronError(ValueError):
    """The schedule is invalid; the message has upstream's wording."""


class _Bounds(Struct, frozen=True):
    low: int
    high: int
    names: tuple[str, ...] = ()
    first: int = 0
    """Number of the first name."""


_FIELDS = (_Bounds(0, 59), _Bounds(0, 23), _Bounds(1, 31), _Bounds(1, 12, _MONTHS, 1), _Bounds(0, 6, _DAYS))


class Schedule(Struct, frozen=True):
    """A parsed schedule."""

    minutes: frozenset[int] = frozenset()
    hours: frozenset[int] = frozenset()
    days: frozenset[int] = frozenset()
    months: frozenset[int] = frozenset()
    weekdays: frozenset[int] = frozenset()
    any_day: bool = False
    """``True`` if one of the two fields for days starts with ``*``: both must match, otherwise one of them."""
    every: timedelta | None = None
    """Constant interval; the other fields are empty."""
    zone: tzinfo | None = None
    """Time zone in the schedule."""

    def next(self, after: datetime, zone: tzinfo | None = None) -> datetime | None:
        """Return the first time after *after*, ``None`` if there is none within five years.

        :param zone: time zone of the schedule if it contains none; by default that of *after*.
        """
        if self.every is not None:
            return (after + self.every).replace(microsecond=0)
        original, local = after.tzinfo, self.zone or zone or after.tzinfo
        time = after.astimezone(local)
        day, last_year = time.replace(hour=0, minute=0, second=0, microsecond=0, tzinfo=None), time.year + _MAX_YEARS
        while day.year <= last_year:
            if day.month not in self.months:
                day = (day.replace(day=1) + timedelta(days=32)).replace(day=1)
                continue
            if self._has_day(day):
                found = next((at for at in self._times(day, local) if at > after), None)
                if found is not None:
                    return found.astimezone(original)
            day += timedelta(days=1)
        return None

    def _has_day(self, day: datetime) -> bool:
        in_month, in_week = day.day in self.days, (day.weekday() + 1) % 7 in self.weekdays
        return in_month and in_week if self.any_day else in_month or in_week

    def _times(self, day: datetime, zone: tzinfo | None) -> Iterator[datetime]:
        """Yield the times of *day*; local times that a change of the clock skips do not exist."""
        for hour in sorted(self.hours):
            for minute in sorted(self.minutes):
                local = day.replace(hour=hour, minute=minute, tzinfo=zone)
                utc = local.astimezone(UTC)
                if utc.astimezone(zone).replace(tzinfo=None) == local.replace(tzinfo=None):
                    yield utc


def parse_schedule(text: str) -> Schedule:
    """Parse five fields, or a descriptor such as ``@hourly`` or ``@every 5m``; ``TZ=ZONE`` may precede them.

    :raises CronError: *text* is not a schedule.
    """
    if not text:
        raise CronError("empty spec string")
    zone = None
    if text.startswith(("TZ=", "CRON_TZ=")):
        given, _, text = text.partition(" ")
        zone = _zone(given.partition("=")[2])
        text = text.strip()
    if text.startswith("@"):
        if text.startswith(_EVERY):
            return Schedule(every=_interval(text), zone=zone)
        if text not in _DESCRIPTORS:
            raise CronError(f"unrecognized descriptor: {text}")
        text = _DESCRIPTORS[text]
    parts = text.split()
    if len(parts) != len(_FIELDS):
        raise CronError(f"expected exactly 5 fields, found {len(parts)}: [{' '.join(parts)}]")
    minutes, hours, days, months, weekdays = map(_field, parts, _FIELDS)
    any_day = any(_is_any(part) for part in (parts[2], parts[4]))
    return Schedule(minutes, hours, days, months, weekdays, any_day, zone=zone)


def _is_any(part: str) -> bool:
    return any(item.partition("/")[0] in ("*", "?") for item in part.split(","))


def _zone(name: str) -> tzinfo:
    try:
        return UTC if name in ("", "UTC") else ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise CronError(f"provided bad location {name}: unknown time zone {name}") from None


def _interval(text: str) -> timedelta:
    try:
        seconds = parse_duration(text.removeprefix(_EVERY)).seconds
    except ValueError:
        shown = quote(text.removeprefix(_EVERY))
        raise CronError(f"failed to parse duration {text}: time: invalid duration {shown}") from None
    return timedelta(seconds=max(1, int(seconds)))


def _field(text: str, bounds: _Bounds) -> frozenset[int]:
    found: set[int] = set()
    for item in filter(None, text.split(",")):
        found.update(_range(item, bounds))
    return frozenset(found)


def _range(text: str, bounds: _Bounds) -> range:
    limits, *steps = text.split("/")
    low, *rest = limits.split("-")
    if low in ("*", "?"):
        start, end = bounds.low, bounds.high
        single = False
    else:
        start, single = _number(low, bounds), not rest
        if len(rest) > 1:
            raise CronError(f"too many hyphens: {text}")
        end = _number(rest[0], bounds) if rest else start
    if len(steps) > 1:
        raise CronError(f"too many slashes: {text}")
    step = _integer(steps[0]) if steps else 1
    if steps and single:
        end = bounds.high  # "N/step" means "N-max/step".
    if start < bounds.low:
        raise CronError(f"beginning of range ({start}) below minimum ({bounds.low}): {text}")
    if end > bounds.high:
        raise CronError(f"end of range ({end}) above maximum ({bounds.high}): {text}")
    if start > end:
        raise CronError(f"beginning of range ({start}) beyond end of range ({end}): {text}")
    if not step:
        raise CronError(f"step of range should be a positive number: {text}")
    return range(start, end + 1, step)


def _number(text: str, bounds: _Bounds) -> int:
    if text.lower() in bounds.names:
        return bounds.names.index(text.lower()) + bounds.first
    return _integer(text)


def _integer(text: str) -> int:
    try:
        if not text.isascii() or not text.removeprefix("-").removeprefix("+").isdecimal():
            raise ValueError
        number = int(text)
    except ValueError:
        raise CronError(
            f"failed to parse int from {text}: strconv.Atoi: parsing {quote(text)}: invalid syntax"
        ) from None
    if number < 0:
        raise CronError(f"negative number ({number}) not allowed: {text}")
    return number

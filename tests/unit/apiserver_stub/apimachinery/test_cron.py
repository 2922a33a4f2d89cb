"""Tests for cron schedules."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from apiserver_stub.apimachinery.cron import CronError, parse_schedule

START = datetime(2026, 1, 31, 10, 30, 15, 500, tzinfo=UTC)  # a Saturday


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("* * * * *", "2026-01-31 10:31"),
        ("30 * * * *", "2026-01-31 11:30"),
        ("31 10 * * *", "2026-01-31 10:31"),
        ("0 0 * * *", "2026-02-01 00:00"),
        ("@daily", "2026-02-01 00:00"),
        ("@hourly", "2026-01-31 11:00"),
        ("@monthly", "2026-02-01 00:00"),
        ("@yearly", "2027-01-01 00:00"),
        ("@weekly", "2026-02-01 00:00"),
        ("0 12 31 * *", "2026-01-31 12:00"),
        ("0 9 31 * *", "2026-03-31 09:00"),
        ("0 0 29 2 *", "2028-02-29 00:00"),
        ("0 0 1 dec ?", "2026-12-01 00:00"),
        ("0 0 * * mon", "2026-02-02 00:00"),
        ("0 0 * * SUN", "2026-02-01 00:00"),
        ("0 0 * * 5-6", "2026-02-06 00:00"),
        ("0 0 13 * fri", "2026-02-06 00:00"),
        ("0 0 */13 * fri", "2026-02-27 00:00"),
        ("0 0 13 * */5", "2026-02-13 00:00"),
        ("*/20 10 * * *", "2026-01-31 10:40"),
        ("5/20 10 * * *", "2026-01-31 10:45"),
        ("10-35/5 10 * * *", "2026-01-31 10:35"),
        ("1,45 10 * * *", "2026-01-31 10:45"),
        ("59 23 * * *", "2026-01-31 23:59"),
        ("0 0 31 12 *", "2026-12-31 00:00"),
        ("TZ=Asia/Tokyo 0 20 * * *", "2026-01-31 11:00"),
        ("CRON_TZ=UTC 0 11 * * *", "2026-01-31 11:00"),
        ("TZ= 0 11 * * *", "2026-01-31 11:00"),
    ],
)
def test_next_time_of_a_schedule(text: str, expected: str) -> None:
    found = parse_schedule(text).next(START)

    assert found is not None
    assert (f"{found:%Y-%m-%d %H:%M}", found.second, found.utcoffset()) == (expected, 0, timedelta(0))


def test_time_itself_is_not_the_next_one() -> None:
    at = datetime(2026, 1, 1, tzinfo=UTC)

    assert parse_schedule("0 0 * * *").next(at) == at + timedelta(days=1)
    assert parse_schedule("0 0 * * *").next(at - timedelta(seconds=1)) == at


@pytest.mark.parametrize(("text", "seconds"), [("1h30m", 5400), ("10ms", 1), ("1.9s", 1), ("2s", 2)])
def test_constant_interval_is_in_whole_seconds(text: str, seconds: int) -> None:
    assert parse_schedule(f"@every {text}").next(START) == START.replace(microsecond=0) + timedelta(seconds=seconds)


@pytest.mark.parametrize("text", ["0 0 30 2 *", "0 0 31 4,6 *"])
def test_schedule_may_have_no_time(text: str) -> None:
    assert parse_schedule(text).next(START) is None


@pytest.mark.parametrize(("years", "found"), [(5, True), (6, False)])
def test_search_ends_after_five_years(years: int, *, found: bool) -> None:
    start = datetime(2104 - years, 3, 1, tzinfo=UTC)

    assert (parse_schedule("0 0 29 2 *").next(start) is not None) is found


def test_time_zone_of_the_caller_applies_without_another() -> None:
    berlin = ZoneInfo("Europe/Berlin")

    assert parse_schedule("0 0 * * *").next(START, berlin) == datetime(2026, 2, 1, tzinfo=berlin)
    assert parse_schedule("TZ=UTC 0 0 * * *").next(START, berlin) == datetime(2026, 2, 1, tzinfo=UTC)


def test_times_that_a_change_of_the_clock_skips_do_not_exist() -> None:
    berlin = ZoneInfo("Europe/Berlin")

    found = parse_schedule("30 2 * * *").next(datetime(2026, 3, 28, 12, tzinfo=berlin))

    assert found == datetime(2026, 3, 30, 2, 30, tzinfo=berlin)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "empty spec string"),
        ("* * * *", "expected exactly 5 fields, found 4: [* * * *]"),
        ("* * * * * *", "expected exactly 5 fields, found 6: [* * * * * *]"),
        ("@often", "unrecognized descriptor: @often"),
        ("@every soon", 'failed to parse duration @every soon: time: invalid duration "soon"'),
        ("TZ=Moon * * * * *", "provided bad location Moon: unknown time zone Moon"),
        ("60 * * * *", "end of range (60) above maximum (59): 60"),
        ("* 24 * * *", "end of range (24) above maximum (23): 24"),
        ("* * 0 * *", "beginning of range (0) below minimum (1): 0"),
        ("* * * 13 *", "end of range (13) above maximum (12): 13"),
        ("* * * * 7", "end of range (7) above maximum (6): 7"),
        ("5-4 * * * *", "beginning of range (5) beyond end of range (4): 5-4"),
        ("1-2-3 * * * *", "too many hyphens: 1-2-3"),
        ("1/2/3 * * * *", "too many slashes: 1/2/3"),
        ("*/0 * * * *", "step of range should be a positive number: */0"),
        ("x * * * *", 'failed to parse int from x: strconv.Atoi: parsing "x": invalid syntax'),
        ("*/-1 * * * *", "negative number (-1) not allowed: -1"),
        ("\u0661 * * * *", 'failed to parse int from \u0661: strconv.Atoi: parsing "\u0661": invalid syntax'),
    ],
)
def test_invalid_schedule_has_the_error_of_upstream(text: str, problem: str) -> None:
    with pytest.raises(CronError) as error:
        parse_schedule(text)

    assert str(error.value) == problem


@pytest.mark.parametrize("text", ["5-5 * * * *", "0-59 0-23 1-31 1-12 0-6", "+5 * * * *", "*/1 * * * *", ", * * * *"])
def test_limits_of_a_field_are_valid(text: str) -> None:
    parse_schedule(text)

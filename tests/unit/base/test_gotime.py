"""Tests for times as Go reads and writes them; the expected results are those of Go 1.21."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodeagent.base.gotime import RFC3339_MICRO, ParseError, parse, render


@pytest.mark.parametrize(
    ("text", "seconds", "nanos"),
    [
        ("1970-01-01T00:00:00Z", 0, 0),
        ("0999-12-31T23:59:59Z", -30610224001, 0),
        ("0000-01-01T00:00:00Z", -62167219200, 0),
        ("0001-01-01T00:00:00+01:00", -62135600400, 0),
        ("2024-02-29T5:04:05,5+02:00", 1709175845, 500_000_000),
        ("2024-02-29T03:04:05Z", 1709175845, 0),
        ("2026-11-30T00:00:00.25Z", 1795996800, 250_000_000),
        ("2026-12-31T23:59:59Z", 1798761599, 0),
    ],
)
def test_every_year_is_read_and_written(text: str, seconds: int, nanos: int) -> None:
    assert parse(text) == (seconds, nanos)
    assert parse(render(seconds)) == (seconds, 0)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("\x7f", 'parsing time "\x7f" as'),
        ("\x80", r'parsing time "\xc2\x80" as'),
        (" \x1f", r'parsing time " \x1f" as'),
        ('a"\\', r'parsing time "a\"\\" as'),
        ("zz", 'parsing time "zz" as "2006-01-02T15:04:05Z07:00": cannot parse "zz" as "2006"'),
        ("2023-02-29T00:00:00Z", 'parsing time "2023-02-29T00:00:00Z": day out of range'),
        ("2026-11-31T00:00:00Z", 'parsing time "2026-11-31T00:00:00Z": day out of range'),
        ("2026-12-32T00:00:00Z", 'parsing time "2026-12-32T00:00:00Z": day out of range'),
        ("2023-02-01T24:00:00Z", 'parsing time "2023-02-01T24:00:00Z": hour out of range'),
        ("2023-02-01T00:00:00Zx", 'parsing time "2023-02-01T00:00:00Zx": extra text: "x"'),
        ("2023-02-01t00:00:00Z", 'cannot parse "t00:00:00Z" as "T"'),
    ],
)
def test_invalid_time_has_the_error_of_go(text: str, message: str) -> None:
    with pytest.raises(ParseError) as raised:
        parse(text)

    assert message in str(raised.value)


def test_layout_with_a_fraction_needs_six_digits() -> None:
    assert parse("2024-01-01T00:00:00.000001Z", RFC3339_MICRO).nanos == 1000
    with pytest.raises(ParseError, match=r'cannot parse "Z" as "\.000000"'):
        parse("2024-01-01T00:00:00Z", RFC3339_MICRO)


@given(st.datetimes(timezones=st.just(UTC)))
def test_calendar_is_the_one_of_datetime(time: datetime) -> None:
    whole = time.replace(microsecond=0)
    text = render(int(whole.timestamp()))

    assert datetime.fromisoformat(text) == whole
    assert parse(text).seconds == whole.timestamp()

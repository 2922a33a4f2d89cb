"""Tests for the times in log queries."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from nodeagent_plugins.routes_logs.values import parse_time


@pytest.mark.parametrize(
    ("text", "hour"),
    [("2024-01-01T05:00:00Z", 5), ("2024-01-01T05:00:00.123456789Z", 5), ("2024-01-01T05:00:00+02:00", 3)],
)
def test_time_is_parsed(text, hour):
    found = parse_time(text)

    assert found.replace(microsecond=0) == datetime(2024, 1, 1, hour, tzinfo=UTC)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "yesterday",
        "2024-01-01",
        "2024-01-01T05:00:00",
        "20240101T050000Z",
        "2024-01-01 05:00:00Z",
        "2024-13-01T05:00:00Z",
        "0001-01-01T00:00:00+12:00",
    ],
)
def test_invalid_time_is_rejected(text):
    with pytest.raises(ValueError):
        parse_time(text)

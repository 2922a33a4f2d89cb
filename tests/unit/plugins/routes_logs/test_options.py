"""Tests for the query parameters of container log requests."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from multidict import MultiDict

from nodeagent_plugins.routes_logs.options import LogOptions, UndecodableQuery, read_options

NOW = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    ("query", "options"),
    [
        ({}, LogOptions()),
        ({"follow": "true", "previous": "1", "timestamps": "t"}, LogOptions(True, True, True)),
        ({"follow": "false", "previous": "0", "timestamps": ""}, LogOptions()),
        ({"sinceSeconds": "1"}, LogOptions(since=NOW - timedelta(seconds=1))),
        ({"sinceTime": "2025-12-31T00:00:00Z"}, LogOptions(since=NOW - timedelta(days=1))),
        ({"sinceSeconds": "", "tailLines": ""}, LogOptions()),
        ({"tailLines": "0"}, LogOptions(tail_lines=0)),
        ({"tail": "all"}, LogOptions()),
        ({"tail": "5"}, LogOptions(tail_lines=5)),
        ({"tailLines": "4", "tail": "5"}, LogOptions(tail_lines=4)),
        ({"limitBytes": "1"}, LogOptions(limit_bytes=1)),
        ({"stream": "Stderr"}, LogOptions(stream=b"stderr")),
        ({"stream": "All"}, LogOptions()),
    ],
)
def test_options_are_read_from_the_query(query: dict[str, str], options: LogOptions) -> None:
    assert read_options(MultiDict(query), NOW) == options


@pytest.mark.parametrize(
    "query",
    [{"follow": "yes"}, {"previous": "2"}, {"tailLines": "x"}, {"sinceSeconds": "1.5"}, {"sinceTime": "now"}],
)
def test_value_of_the_wrong_type_cannot_be_decoded(query: dict[str, str]) -> None:
    with pytest.raises(UndecodableQuery):
        read_options(MultiDict(query), NOW)


@pytest.mark.parametrize(
    ("query", "problem"),
    [
        ({"sinceSeconds": "0"}, "sinceSeconds must be greater than 0"),
        ({"sinceSeconds": "1", "sinceTime": "2025-12-31T00:00:00Z"}, "at most one of"),
        ({"tailLines": "-1"}, "tailLines must be at least 0"),
        ({"limitBytes": "0"}, "limitBytes must be greater than 0"),
        ({"stream": "stdout"}, "stream must be"),
    ],
)
def test_invalid_value_is_rejected(query: dict[str, str], problem: str) -> None:
    with pytest.raises(ValueError, match=problem) as caught:
        read_options(MultiDict(query), NOW)

    assert not isinstance(caught.value, UndecodableQuery)

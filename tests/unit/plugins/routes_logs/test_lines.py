"""Tests for the conversion of log lines."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodeagent_plugins.routes_logs.lines import LineReader, parse_time

TEXT = st.binary(max_size=30).map(lambda data: data.replace(b"\n", b"").replace(b"\r", b""))
ENTRY = st.tuples(
    st.integers(0, 59), st.sampled_from([b"stdout", b"stderr"]), st.sampled_from([b"F", b"P", b"F:x"]), TEXT
)


TIME = b"2024-01-01T00:00:01.123456789Z"


def entry(second, stream, tag, text):
    return b"2024-01-01T00:00:%02d.123456789Z %s %s %s\n" % (second, stream, tag, text)


def read(data, sizes=(), **options):
    reader, out, at = LineReader(**options), b"", 0
    for size in sizes:
        out += reader.feed(data[at : at + size])
        at += size
    return out + reader.feed(data[at:])


@given(st.lists(ENTRY, max_size=12), st.lists(st.integers(1, 60), max_size=20), st.booleans())
def test_chunk_sizes_do_not_change_the_output(entries, sizes, timestamps):
    data = b"".join(entry(*e) for e in entries)

    assert read(data, sizes, timestamps=timestamps) == read(data, timestamps=timestamps)


@given(st.lists(ENTRY, max_size=12))
def test_output_has_line_breaks_only_at_line_ends(entries):
    expected = b"".join(text + (b"" if tag == b"P" else b"\n") for _, _, tag, text in entries)

    assert read(b"".join(entry(*e) for e in entries)) == expected


@pytest.mark.parametrize("torn", [b"2024-01", b"2024-01-01T00:00:01.000000000Z stdout", TIME + b" stdout F", b"{", b""])
@pytest.mark.parametrize("timestamps", [False, True])
def test_truncated_line_affects_no_other(torn, timestamps):
    lines = entry(1, b"stdout", b"F", b"one") + torn + b"\n" + entry(2, b"stderr", b"F", b"two stdout F three")

    found = read(lines, timestamps=timestamps)

    times = [TIME + b" ", b"2024-01-01T00:00:02.123456789Z "] if timestamps else [b"", b""]
    assert found == times[0] + b"one\n" + times[1] + b"two stdout F three\n"


@pytest.mark.parametrize("timestamps", [False, True])
def test_empty_line_is_kept(timestamps):
    found = read(entry(1, b"stdout", b"F", b""), timestamps=timestamps)

    assert found == (TIME + b" \n" if timestamps else b"\n")


def test_line_without_end_is_limited():
    reader = LineReader()

    assert reader.feed(b"2024-01-01T00:00:00Z stdout F " + b"x" * 100) == b""
    assert len(reader.feed(b"x" * 2_000_000)) == 2_000_101


def test_all_time_formats_are_parsed():
    assert parse_time(b"2024-01-01T02:00:00.5+02:00") == datetime(2024, 1, 1, 0, 0, 0, 500_000, tzinfo=UTC)
    assert parse_time(b"2024-01-01T00:00:00Z") == datetime(2024, 1, 1, tzinfo=UTC)
    assert parse_time(b"2024-13-01T00:00:00Z") is None
    assert parse_time(b"yesterday") is None

"""Tests for the query parameters of node log queries."""

from datetime import UTC, datetime

import pytest
from multidict import MultiDict

from nodeagent_plugins.routes_logs.query import InvalidQuery, LogQuery, Unparsable, journal_arguments, read_query

BEGIN = "2024-01-02T03:04:05Z"
END = "2024-01-02T04:04:05Z"
LONG = "x" * 256


def read(*pairs):
    return read_query(MultiDict(pairs))


def test_query_selects_services_or_a_file():
    assert read() is None
    assert read(("follow", "true")) is None
    assert read(("query", "kubelet"), ("query", "sshd")) == LogQuery(services=["kubelet", "sshd"])
    assert read(("query", "a.log/b")) == LogQuery(services=[], file="a.log/b")
    assert read(("query", "a\\b.log")) == LogQuery(services=[], file="a\\b.log")
    assert read(("query", LONG)).services == [LONG]
    assert read(*[("query", name) for name in "abcd"]).services == list("abcd")


def test_options_of_a_query_are_read():
    times = LogQuery(services=["u"], since=datetime(2024, 1, 2, 3, 4, 5, tzinfo=UTC))
    for pair, options in [
        (("sinceTime", BEGIN), times),
        (("untilTime", BEGIN), LogQuery(services=["u"], until=times.since)),
        (("tailLines", "0"), LogQuery(services=["u"], tail_lines=0)),
        (("tailLines", "100000"), LogQuery(services=["u"], tail_lines=100_000)),
        (("pattern", "a+"), LogQuery(services=["u"], pattern="a+")),
        (("pattern", "x" * 1024), LogQuery(services=["u"], pattern="x" * 1024)),
        (("boot", "0"), LogQuery(services=["u"], boot=0)),
        (("boot", "-1"), LogQuery(services=["u"], boot=-1)),
        (("follow", "1"), LogQuery(services=["u"], follow=True)),
    ]:
        assert read(("query", "u"), pair) == options, pair
        assert options.has_options, pair
        with pytest.raises(InvalidQuery, match="a file takes no options"):
            read(("query", "dir/u.log"), pair)
    assert read(("query", "u"), ("tailLines", ""), ("sinceTime", ""), ("follow", "no")) == LogQuery(services=["u"])
    assert not LogQuery(services=["u"]).has_options
    assert read(("query", "u"), ("sinceTime", BEGIN), ("untilTime", BEGIN)) is not None


def test_query_that_violates_a_rule_is_rejected_with_the_rule():
    for pairs, text in [
        ([("tailLines", "1")], "tailLines: Forbidden: may not be given without query"),
        ([("boot", "0")], "boot: Forbidden: may not be given without query"),
        ([("query", "a/b"), ("query", "c")], "services and files may not be mixed"),
        ([("query", "a/b"), ("query", "c/d")], "one file at most"),
        ([("query", name) for name in "abcde"], "4 services at most"),
        ([("query", "-unit")], "a service is named by"),
        ([("query", "a b")], "a service is named by"),
        ([("query", f"{LONG}x")], "a service is named by"),
        ([("query", "u"), ("sinceTime", END), ("untilTime", BEGIN)], "must not be before sinceTime"),
        ([("query", "u"), ("tailLines", "-1")], "must be between 0 and 100000"),
        ([("query", "u"), ("tailLines", "100001")], "must be between 0 and 100000"),
        ([("query", "u"), ("boot", "1")], "must be 0 or less"),
        ([("query", "u"), ("pattern", "x" * 1025)], "at most 1024 characters"),
        ([("query", "u"), ("pattern", "a\0")], "at most 1024 characters"),
        ([("query", "u"), ("pattern", "(")], "pattern: Invalid value"),
    ]:
        with pytest.raises(InvalidQuery) as caught:
            read(*pairs)
        assert text in str(caught.value), pairs


def test_value_of_the_wrong_type_is_unparsable():
    for pairs, text in [
        ([("query", "")], "query: must not be empty"),
        ([("query", "u"), ("query", " ")], "query: must not be empty"),
        ([("query", "u"), ("sinceTime", "yesterday")], "sinceTime: not a time of RFC 3339"),
        ([("query", "u"), ("boot", "one")], "boot: not a whole number"),
    ]:
        with pytest.raises(Unparsable) as caught:
            read(*pairs)
        assert str(caught.value) == text, pairs


def test_journal_gets_only_the_options_of_the_query():
    fixed = ["--utc", "--no-pager", "--output=short-precise"]
    begin, end = datetime(2024, 1, 2, 3, 4, 5, tzinfo=UTC), datetime(2024, 1, 2, 4, 4, 5, tzinfo=UTC)
    complete = LogQuery(since=begin, until=end, tail_lines=0, pattern="a", boot=0, follow=True)

    assert journal_arguments(LogQuery(), []) == fixed
    assert journal_arguments(LogQuery(), ["a", "b"]) == [*fixed, "--unit=a", "--unit=b"]
    assert journal_arguments(complete, ["a"]) == [
        *fixed,
        "--since=2024-01-02 03:04:05",
        "--until=2024-01-02 04:04:05",
        "--lines=0",
        "--unit=a",
        "--grep=a",
        "--boot=0",
        "--follow",
    ]

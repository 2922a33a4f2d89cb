"""Tests for the metrics page."""

from __future__ import annotations

from typing import Any

from apiserver_stub.telemetry.exposition import Choice, Page
from nodeagent.base.metrics import Buckets


def page(**choice: Any) -> Page:
    return Page(Choice(**choice))


def lines(page: Page) -> list[str]:
    return page.text()[0].decode().splitlines()


def test_samples_are_sorted_by_label_text():
    made = page()
    made.gauge("stored", "Stored.", ("of",), [(("b",), 2), (('a"',), 1.5)])
    made.gauge("on", "Whether.", (), [((), True)])
    made.counter("none", "None.", ("of",), [])
    assert lines(made) == [
        "# HELP stored Stored.",
        "# TYPE stored gauge",
        r'stored{of="a\""} 1.5',
        'stored{of="b"} 2',
        "# HELP on Whether.",
        "# TYPE on gauge",
        "on 1",
    ]
    assert made.text()[1] == "text/plain; version=0.0.4; charset=utf-8"


def test_disallowed_label_values_are_merged():
    fast, slow = Buckets((1, 2.5)), Buckets((1, 2.5))
    fast.observe(0.5)
    slow.observe(9)
    made = page(allowed={("took", "verb"): frozenset(["GET"]), ("asked", "verb"): frozenset(["GET"])})
    made.histogram("took", "Took.", ("verb",), [(("PUT",), fast), (("POST",), slow)])
    made.counter("asked", "Asked.", ("verb",), [(("GET",), 1), (("PUT",), 2), (("POST",), 4)])
    assert lines(made)[2:7] == [
        'took_bucket{verb="unexpected",le="1"} 1',
        'took_bucket{verb="unexpected",le="2.5"} 1',
        'took_bucket{verb="unexpected",le="+Inf"} 2',
        'took_sum{verb="unexpected"} 9.5',
        'took_count{verb="unexpected"} 2',
    ]
    assert lines(made)[-2:] == ['asked{verb="GET"} 1', 'asked{verb="unexpected"} 6']
    assert (sum(fast.counts), sum(slow.counts)) == (1, 1)


def test_disabled_and_hidden_metrics_are_omitted():
    for choice, there in (({}, False), ({"hidden": True}, True), ({"hidden": True, "disabled": {"old"}}, False)):
        made = page(**choice)
        made.histogram("old", "Old.", (), [((), Buckets((1,)))], deprecated="1.27.0")
        assert ("# HELP old (Deprecated since 1.27.0) Old." in lines(made)) is there
    made = page(disabled=frozenset(["asked"]))
    made.counter("asked", "Asked.", (), [((), 1)])
    assert lines(made) == []

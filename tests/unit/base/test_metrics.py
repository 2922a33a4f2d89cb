"""Tests for metrics and their text formats."""

from __future__ import annotations

import math
import tracemalloc

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_open
from prometheus_client.parser import text_string_to_metric_families as parse_text

from nodeagent.base import metrics
from nodeagent.base.metrics import (
    Counter,
    Family,
    Gauge,
    Histogram,
    SampledGauge,
    exponential,
    expose,
    instruments,
    label_text,
)

OPEN = "application/openmetrics-text; version=1.0.0"


@pytest.fixture(autouse=True)
def no_others(monkeypatch):
    monkeypatch.setattr(metrics, "_INSTRUMENTS", {})


def samples(accept=""):
    parse = parse_open if accept else parse_text
    body, _ = expose(instruments("test_"), accept)
    return {
        (sample.name, tuple(sample.labels.values())): sample.value
        for family in parse(body.decode())
        for sample in family.samples
    }


@pytest.mark.parametrize("accept", ["", OPEN])
def test_all_metric_types_can_be_parsed(accept):
    counter, gauge = Counter("requests_total", "Requests.", ("who",)), Gauge("open", "Open.", prefixed=False)
    histogram = Histogram("length_seconds", "Length.", bounds=(1, 2.5))
    counter.inc('a"\\\n')
    counter.inc("b", by=2)
    gauge.set(7)
    gauge.inc(by=-3)
    for value in (0.5, 1, 2, 9):
        histogram.observe(value)

    found = samples(accept)

    assert found["test_requests_total", ('a"\\\n',)] == 1
    assert found["test_requests_total", ("b",)] == 2
    assert found["open", ()] == 4
    buckets = [value for (name, _), value in found.items() if name == "test_length_seconds_bucket"]
    assert buckets == [2, 3, 4]
    assert (found["test_length_seconds_sum", ()], found["test_length_seconds_count", ()]) == (12.5, 4)


def test_only_openmetrics_adds_the_suffix_of_counters():
    Counter("evictions", "Evicted.", ("signal",)).inc("memory.available")

    text, _ = expose(instruments("test_"))
    opened, kind = expose(instruments("test_"), OPEN)

    assert b"# TYPE test_evictions counter\n" in text
    assert b'test_evictions{signal="memory.available"} 1\n' in text
    assert b'test_evictions_total{signal="memory.available"} 1\n' in opened
    assert opened.endswith(b"# EOF\n")
    assert kind.startswith("application/openmetrics-text")


def test_metric_without_labels_is_exposed_before_its_first_use():
    Counter("requests_total", "Requests.")
    Counter("failed_total", "Failed.", ("why",))
    Histogram("length_seconds", "Length.", bounds=(1,))

    assert {name: value for (name, _), value in samples().items()} == {
        "test_requests_total": 0,
        "test_length_seconds_bucket": 0,
        "test_length_seconds_count": 0,
        "test_length_seconds_sum": 0,
    }


def test_series_of_a_gauge_can_be_removed():
    gauge = Gauge("open", "Open.", ("what",))
    gauge.set(1, "a")
    gauge.set(math.inf, "b")
    gauge.forget("a")

    assert samples() == {("test_open", ("b",)): math.inf}


def test_timestamps_have_the_unit_of_the_format():
    family = Family("used", "gauge", "Used.")
    family.add(1, at=1_700_000_000_123_000_000)

    assert expose([family])[0].endswith(b"used 1 1700000000123\n")
    assert b"used 1 1700000000.123\n" in expose([family], OPEN)[0]


def test_deprecated_metric_is_exposed_on_request():
    family = Family("old", "gauge", "Old.", deprecated="1.29")
    family.add(1)

    assert expose([family])[0] == b""
    assert b"# HELP old (Deprecated since 1.29) Old.\n" in expose([family], deprecated=True)[0]


def test_values_can_be_read():
    counter, histogram = Counter("requests_total", "Requests.", ("who",)), Histogram("length", "Length.", ("who",))
    counter.inc("a")
    histogram.observe(1, "a")

    assert (counter.value("a"), counter.value("b"), histogram.count("a"), histogram.count("b")) == (1, 0, 1, 0)


def test_exponential_bounds_grow_by_the_factor():
    assert exponential(1, 2, 3) == (1, 2, 4)


def test_sampled_gauge_is_sampled_at_each_scrape():
    gauge, values = SampledGauge("pods", "Pods.", ("static",)), {("true",): 1}
    assert samples() == {}
    gauge.sample = lambda: values
    assert samples() == {("test_pods", ("true",)): 1}

    values["",] = 4

    assert samples() == {("test_pods", ("true",)): 1, ("test_pods", ("",)): 4}


def test_large_page_needs_a_multiple_of_its_size_only():
    """Lines are many small objects, whose memory the process would keep as fragments."""
    histogram = Histogram("duration_seconds", "Duration.", ("path",))
    for number in range(2000):
        histogram.observe(number % 7, f"path-{number}")

    tracemalloc.start()
    try:
        body, _ = expose(instruments("test_"))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert len(body) > 1_000_000
    assert peak < 2.6 * len(body)


@pytest.mark.parametrize(
    ("value", "text"), [("a", "a"), ("a\\b", "a\\\\b"), ('a"b', 'a\\"b'), ("a\nb", "a\\nb"), ("ä'", "ä'")]
)
def test_special_characters_of_labels_are_escaped(value, text):
    assert label_text(("l", "m"), (value, "x")) == f'l="{text}",m="x"'


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (3, "3"),
        (3.0, "3"),
        (0.5, "0.5"),
        (1e15 - 1, "999999999999999"),
        (1e15, "1000000000000000.0"),
        (-1e16, "-1e+16"),
        (math.inf, "+Inf"),
        (-math.inf, "-Inf"),
    ],
)
def test_numbers_are_integers_up_to_15_digits(value, text):
    Gauge("number", "A number.", prefixed=False).set(value)

    body, _ = expose(instruments("test_"), "")

    assert f"number {text}\n".encode() in body

"""Tests for ``tests/soak``: slopes, growth of counts, and the report."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree

import pytest

from tests.soak.growth import Growth, count_grows, evaluate, slope, warm_up_seconds
from tests.soak.report import Result, page, text_table

HOUR = 3600.0


def samples(hours: float) -> list[float]:
    return [10.0 * number for number in range(int(hours * 360) + 1)]


def test_slope_ignores_single_peaks() -> None:
    times = [float(number) for number in range(50)]
    values = [100 + 2 * at for at in times]
    values[20] += 1000
    assert slope(times, values) == pytest.approx(2)


@pytest.mark.parametrize(("length", "expected"), [(6 * HOUR, HOUR), (HOUR, HOUR / 3)])
def test_warm_up_is_one_hour_or_a_third_of_a_short_run(length: float, expected: float) -> None:
    assert warm_up_seconds(length) == expected


@pytest.mark.parametrize(("hours", "mib_per_hour", "fails"), [(3.0, 0.2, True), (3.0, 0.05, False), (1.0, 0.2, False)])
def test_memory_fails_a_long_run_from_the_limit_on(hours: float, mib_per_hour: float, fails: bool) -> None:
    times = samples(hours)
    series = {"agent: RSS, MiB": [80 + mib_per_hour * at / HOUR for at in times]}
    [growth] = evaluate(times, series, quiet=[])
    assert growth.grows is fails
    assert growth.per_hour == pytest.approx(mib_per_hour)


def test_memory_that_grows_only_in_the_first_hour_passes() -> None:
    times = samples(4)
    [growth] = evaluate(times, {"agent: RSS, MiB": [80 + min(at, HOUR) / 60 for at in times]}, quiet=[])
    assert not growth.grows


def test_count_is_compared_at_quiet_times_only() -> None:
    times = samples(2)
    values = [10.0 + at / 60 for at in times]
    quiet = list(range(0, len(times), 30))
    for index in quiet:
        values[index] = 10.0
    [growth] = evaluate(times, {"agent: tasks": values}, quiet)
    assert not growth.grows
    for index in quiet:
        values[index] = 10.0 + times[index] / HOUR * 10
    [growth] = evaluate(times, {"agent: tasks": values}, quiet)
    assert growth.grows


@pytest.mark.parametrize(
    ("values", "grows"),
    [
        ([10, 10, 11, 12, 14, 14], True),
        ([10, 20, 11, 12, 14, 14], False),
        ([10, 10, 10, 10, 12, 12], False),
        ([1], False),
    ],
)
def test_count_grows_if_the_last_third_is_above_the_first(values: list[float], grows: bool) -> None:
    assert count_grows(values, 2) is grows


@pytest.mark.parametrize("grows", [True, False])
def test_report_is_one_file_with_a_chart_per_figure(grows: bool) -> None:
    growth = [Growth("mounts", 3, 9, 9, 2.5, grows)]
    result = Result(
        {"seed": "1"}, [0, 10, 20], {"mounts": [3, None, 9], "tasks": [1, 2, 3]}, [2], growth, {"exec": 4}, []
    )
    document = page(result)
    assert document.count("<svg") == 2
    assert "http" not in document.replace("http://www.w3.org/2000/svg", "")
    assert ("Soak test: failed" if grows else "Soak test: passed") in document
    charts = document.partition("<svg")[2].partition("</svg>")[0]
    ElementTree.fromstring(f"<svg{charts}</svg>")
    assert result.failed is grows
    assert ("grows" in text_table(result)) is grows


def test_violation_fails_the_run_and_is_escaped() -> None:
    result = Result({}, [0.0], {"tasks": [1]}, [], [], {}, ["pod <a> is not Running"])
    assert result.failed
    assert "pod &lt;a&gt; is not Running" in page(result)

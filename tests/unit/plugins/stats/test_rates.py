"""Tests for CPU rates."""

from __future__ import annotations

import pytest

from nodeagent_plugins.stats.rates import MIN_NANOSECONDS, CpuRates

SECOND = 1_000_000_000


def test_first_sample_has_no_rate():
    rates = CpuRates()

    assert rates.update("a", 0, 100) is None
    assert rates.update("a", 10 * SECOND, 100 + 5 * SECOND) == SECOND // 2


def test_close_samples_keep_the_rate():
    rates = CpuRates()
    rates.update("a", 0, 0)
    rates.update("a", SECOND, SECOND // 4)

    assert rates.update("a", SECOND + 1000, SECOND) == SECOND // 4


def test_reset_counter_has_no_rate():
    rates = CpuRates()
    rates.update("a", 0, 500)

    assert rates.update("a", SECOND, 20) is None


def test_dropped_key_has_no_rate():
    rates = CpuRates()
    rates.update("a", 0, 0)
    rates.keep({"b"})

    assert rates.update("a", SECOND, SECOND) is None
    assert rates.update("b", SECOND, None) is None


def test_idle_counter_has_rate_zero():
    rates = CpuRates()
    rates.update("a", 0, 500)

    assert rates.update("a", SECOND, 500) == 0


@pytest.mark.parametrize(("early", "rate"), [(0, 10), (1, None)])
def test_rate_needs_samples_with_the_minimum_interval(early, rate):
    rates = CpuRates()
    rates.update("a", 0, 0)

    assert rates.update("a", MIN_NANOSECONDS - early, 10 * MIN_NANOSECONDS // SECOND) == rate

"""Tests for CPU rates."""

from __future__ import annotations

from nodeagent_plugins.stats.rates import CpuRates

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

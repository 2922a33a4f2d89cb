"""The use of CPU a second is what was used between two samples."""

from __future__ import annotations

from nodeagent_plugins.stats.rates import CpuRates

SECOND = 1_000_000_000


def test_the_first_sample_has_no_rate():
    rates = CpuRates()

    assert rates.update("a", 0, 100) is None
    assert rates.update("a", 10 * SECOND, 100 + 5 * SECOND) == SECOND // 2


def test_samples_close_together_keep_the_rate():
    rates = CpuRates()
    rates.update("a", 0, 0)
    rates.update("a", SECOND, SECOND // 4)

    assert rates.update("a", SECOND + 1000, SECOND) == SECOND // 4


def test_a_counter_that_began_anew_has_no_rate():
    rates = CpuRates()
    rates.update("a", 0, 500)

    assert rates.update("a", SECOND, 20) is None


def test_what_is_not_kept_begins_anew():
    rates = CpuRates()
    rates.update("a", 0, 0)
    rates.keep({"b"})

    assert rates.update("a", SECOND, SECOND) is None
    assert rates.update("b", SECOND, None) is None

"""Tests for the times at which a resource was below a limit."""

from __future__ import annotations

import pytest

from nodeagent.simulation.lows import Lows


@pytest.fixture
def lows():
    """Below the limit from 10 to 20, from 25 to 30, and since 40."""
    lows = Lows()
    for now, low in ((0, False), (10, True), (12, True), (20, False), (25, True), (30, False), (40, True)):
        lows.observe(float(now), low=low)
    return lows


def test_times_end_with_the_current_one(lows):
    assert lows.times(50.0) == [(10.0, 20.0), (25.0, 30.0), (40.0, 50.0)]
    lows.observe(50.0, low=False)
    assert lows.times(60.0)[-1] == (40.0, 50.0)
    assert (lows.within(50.0, 60.0), lows.within(50.1, 60.0)) == (True, False)


@pytest.mark.parametrize(("gap", "since"), [(4.0, 40.0), (10.0, 10.0), (9.9, 40.0)])
def test_short_recoveries_do_not_end_a_time(lows, gap, since):
    assert lows.since(50.0, gap) == since


def test_time_that_ended_longer_ago_than_the_gap_does_not_count(lows):
    lows.observe(50.0, low=False)
    assert (lows.since(55.0, 5.0), lows.since(55.1, 5.0)) == (40.0, None)


def test_times_are_forgotten_after_their_end(lows):
    lows.forget(30.0)
    assert lows.times(50.0) == [(25.0, 30.0), (40.0, 50.0)]

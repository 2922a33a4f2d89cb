"""Tests for times that periodic work shares."""

from __future__ import annotations

import pytest

from nodeagent.base.aio.shared_times import SHARED_SECONDS, until_shared


@pytest.mark.parametrize("now", [0.0, 0.3, 4.999, 1002.5])
@pytest.mark.parametrize("seconds", [5.0, 10.0, 61.7])
def test_pause_ends_at_a_shared_time_within_the_limit(now, seconds):
    pause = until_shared(now, seconds)

    assert seconds - SHARED_SECONDS < pause <= seconds + 0.002
    assert min((now + pause) % SHARED_SECONDS, SHARED_SECONDS - (now + pause) % SHARED_SECONDS) < 0.002


def test_periodic_work_with_the_length_of_the_interval_keeps_its_period():
    times = [0.0]
    while len(times) < 50:
        times.append(times[-1] + 0.01 + until_shared(times[-1] + 0.01, 5.0))

    assert times[-1] == pytest.approx(49 * 5.0, abs=0.1)


def test_short_pause_is_unchanged():
    assert until_shared(1.0, 2.0) == 2.0

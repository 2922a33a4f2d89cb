"""Tests for delays between attempts: growth, reset and expiry."""

from __future__ import annotations

import pytest

from nodeagent.base.aio import BackoffTable
from nodeagent.testing import FakeClock


def test_delay_doubles_up_to_the_maximum(clock: FakeClock) -> None:
    table = BackoffTable(clock, 10.0, 35.0)

    assert [table.step("a") for _ in range(4)] == [10.0, 20.0, 35.0, 35.0]
    assert (table.pause("a"), table.pause("b")) == (35.0, 0.0)


@pytest.mark.parametrize(("seconds", "expected"), [(200.0, 20.0), (200.5, 10.0)])
def test_delay_starts_again_after_twice_the_maximum(clock: FakeClock, seconds: float, expected: float) -> None:
    table = BackoffTable(clock, 10.0, 100.0)
    table.step("a")
    clock.jump(seconds)

    table.collect()
    assert (table.pause("a") > 0) == (seconds == 200.0)
    assert table.step("a") == expected


def test_rest_of_a_delay_counts_from_its_start(clock: FakeClock) -> None:
    table = BackoffTable(clock, 10.0)
    start = clock.now()
    table.step("a")
    clock.jump(4)

    assert table.remaining("a") == 6.0
    assert table.remaining("a", since=start + 2) == 8.0
    clock.jump(20)
    assert table.remaining("a") == 0.0

    table.forget("a")
    assert table.pause("a") == 0.0

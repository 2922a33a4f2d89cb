"""Tests for the allocation of seats among priority levels."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apiserver_stub.flowcontrol.seat_borrowing import SeatDemand, SeatTarget, allocate_seats


def test_seats_are_proportional_to_targets() -> None:
    assert allocate_seats(90, [SeatTarget(0, 1000, 10), SeatTarget(0, 1000, 20)]) == [30, 60]
    assert allocate_seats(15, [SeatTarget(0, 1000, 10), SeatTarget(0, 1000, 20)]) == [5, 10]


def test_seats_are_within_minimum_and_maximum() -> None:
    assert allocate_seats(100, [SeatTarget(50, 1000, 50), SeatTarget(10, 1000, 450)]) == [50, 50]
    assert allocate_seats(100, [SeatTarget(0, 20, 90), SeatTarget(0, 1000, 10)]) == [20, 80]


def test_half_seats_are_rounded_up() -> None:
    assert allocate_seats(5, [SeatTarget(0, 100, 10), SeatTarget(0, 100, 10)]) == [3, 3]
    assert allocate_seats(1, [SeatTarget(0, 100, 10), SeatTarget(0, 100, 10)]) == [1, 1]


def test_all_seats_are_allocated_without_demand() -> None:
    assert allocate_seats(100, [SeatTarget(0, 100, 0), SeatTarget(0, 100, 0)]) == [50, 50]


@given(
    st.lists(
        st.tuples(st.integers(0, 100), st.integers(0, 100), st.floats(0, 1000), st.integers(1, 1000)),
        min_size=1,
        max_size=8,
    )
)
def test_sum_of_seats_equals_the_total(levels: list[tuple[int, int, float, int]]) -> None:
    seats = sum(kept + lent for kept, lent, _, _ in levels)
    wishes = [SeatTarget(kept, kept + lent + more, max(kept, target)) for kept, lent, target, more in levels]

    shares = allocate_seats(seats, wishes)

    assert abs(sum(shares) - seats) <= len(levels)  # each value is rounded
    assert all(wish.least <= share <= wish.most for wish, share in zip(wishes, shares, strict=True))


def test_demand_is_measured_over_time() -> None:
    demand = SeatDemand(0)
    demand.note(10, 5)  # for half of the period
    demand.close(10)

    assert demand.highest == 10
    assert demand.smoothed == pytest.approx(5 + 5)  # average and deviation


def test_past_demand_decays_slowly() -> None:
    demand = SeatDemand(0)
    demand.note(100, 0)
    demand.close(10)
    demand.note(0, 10)
    seen = []
    for period in range(2, 33):
        demand.close(10 * period)
        seen.append(demand.smoothed)

    assert seen[0] == pytest.approx(97.7)
    assert 45 < seen[-1] < 55
    assert demand.highest == 0


def test_empty_period_has_no_demand() -> None:
    demand = SeatDemand(5)
    demand.close(5)

    assert (demand.highest, demand.smoothed) == (0, 0.0)

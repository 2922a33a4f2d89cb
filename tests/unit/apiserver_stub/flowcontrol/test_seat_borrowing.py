"""Seats go where they are needed, within what each level keeps and may have."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apiserver_stub.flowcontrol.seat_borrowing import SeatDemand, SeatTarget, allocate_seats


def test_all_get_the_same_part_of_what_they_would_like() -> None:
    assert allocate_seats(90, [SeatTarget(0, 1000, 10), SeatTarget(0, 1000, 20)]) == [30, 60]
    assert allocate_seats(15, [SeatTarget(0, 1000, 10), SeatTarget(0, 1000, 20)]) == [5, 10]


def test_nobody_gets_less_than_it_must_have_or_more_than_it_may() -> None:
    assert allocate_seats(100, [SeatTarget(50, 1000, 50), SeatTarget(10, 1000, 450)]) == [50, 50]
    assert allocate_seats(100, [SeatTarget(0, 20, 90), SeatTarget(0, 1000, 10)]) == [20, 80]


def test_without_any_demand_all_seats_are_still_given() -> None:
    assert allocate_seats(100, [SeatTarget(0, 100, 0), SeatTarget(0, 100, 0)]) == [50, 50]


@given(
    st.lists(
        st.tuples(st.integers(0, 100), st.integers(0, 100), st.floats(0, 1000), st.integers(1, 1000)),
        min_size=1,
        max_size=8,
    )
)
def test_what_is_shared_out_is_all_there_is(levels: list[tuple[int, int, float, int]]) -> None:
    seats = sum(kept + lent for kept, lent, _, _ in levels)
    wishes = [SeatTarget(kept, kept + lent + more, max(kept, target)) for kept, lent, target, more in levels]

    shares = allocate_seats(seats, wishes)

    assert abs(sum(shares) - seats) <= len(levels)  # each is rounded
    assert all(wish.least <= share <= wish.most for wish, share in zip(wishes, shares, strict=True))


def test_demand_is_measured_over_time() -> None:
    demand = SeatDemand(0)
    demand.note(10, 5)  # for half of the period
    demand.close(10)

    assert demand.highest == 10
    assert demand.smoothed == pytest.approx(5 + 5)  # average and deviation


def test_demand_that_is_gone_is_forgotten_slowly() -> None:
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

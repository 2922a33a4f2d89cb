"""Callers are told to stay away longer while many are turned away, and shorter when few are."""

from __future__ import annotations

from apiserver_stub.transport.retry_after import LONGEST_SECONDS, RetryAfter


def told(retry: RetryAfter, second: int, callers: int) -> int:
    """Turn so many away in one second and return what the last of them is told."""
    return [retry.refused(1000 + second) for _ in range(callers)][-1]


def test_the_time_doubles_while_many_are_turned_away_and_has_an_end() -> None:
    retry = RetryAfter()

    assert told(retry, 0, 100) == 1  # a single burst, so far
    assert [told(retry, second, 100) for second in (1, 2, 3, 5, 7)] == [2, 2, 4, 4, 8]
    for second in range(8, 200):
        told(retry, second, 100)

    assert retry.seconds == LONGEST_SECONDS


def test_the_time_shrinks_by_a_second_when_few_are_turned_away() -> None:
    retry = RetryAfter()
    for second in range(4):
        told(retry, second, 100)
    assert retry.seconds == 4

    assert [told(retry, second, 1) for second in (50, 60, 70, 80)] == [3, 2, 1, 1]


def test_a_few_in_each_second_change_nothing() -> None:
    retry = RetryAfter()

    assert {told(retry, second, 2) for second in range(50)} == {1}

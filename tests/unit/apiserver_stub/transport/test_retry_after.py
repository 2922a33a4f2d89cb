"""Tests for ``Retry-After`` under sustained rejection of requests."""

from __future__ import annotations

from apiserver_stub.transport.retry_after import LONGEST_SECONDS, RetryAfter


def reported(retry: RetryAfter, second: int, callers: int) -> int:
    """Reject *count* requests in one second and return the last retry time."""
    return [retry.record_rejection(1000 + second) for _ in range(callers)][-1]


def test_retry_time_doubles_up_to_a_maximum_under_overload() -> None:
    retry = RetryAfter()

    assert reported(retry, 0, 100) == 1  # a single burst
    assert [reported(retry, second, 100) for second in (1, 2, 3, 5, 7)] == [2, 2, 4, 4, 8]
    for second in range(8, 200):
        reported(retry, second, 100)

    assert retry.seconds == LONGEST_SECONDS


def test_retry_time_decreases_by_a_second_without_overload() -> None:
    retry = RetryAfter()
    for second in range(4):
        reported(retry, second, 100)
    assert retry.seconds == 4

    assert [reported(retry, second, 1) for second in (50, 60, 70, 80)] == [3, 2, 1, 1]


def test_few_rejections_per_second_keep_the_retry_time() -> None:
    retry = RetryAfter()

    assert {reported(retry, second, 2) for second in range(50)} == {1}


def test_three_rejections_per_second_double_the_retry_time() -> None:
    retry = RetryAfter()

    assert [reported(retry, second, 3) for second in range(4)] == [1, 2, 2, 4]

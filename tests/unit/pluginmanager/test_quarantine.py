"""Tests for the quarantine of plugins that fail repeatedly."""

import pytest

from nodeagent.pluginmanager.quarantine import Quarantine, QuarantinePolicy

POLICY = QuarantinePolicy(failures=3, window_seconds=10, retry_seconds=5, max_retry_seconds=15)


def quarantined(*, at: float = 0.0) -> Quarantine:
    state = Quarantine(POLICY)
    for _ in range(POLICY.failures):
        state.failed(at, "broken")
    return state


def test_failures_within_the_window_start_a_quarantine():
    state = Quarantine(POLICY)

    assert [state.failed(now, "broken") for now in (0, 4, 8)] == [False, False, True]
    assert not state.allows(12)
    assert state.allows(13)


def test_failures_spread_over_more_than_the_window_are_tolerated():
    state = Quarantine(POLICY)

    assert not any(state.failed(now, "broken") for now in range(0, 100, 6))
    assert state.allows(100)


@pytest.mark.parametrize(("last", "starts"), [(POLICY.window_seconds, True), (POLICY.window_seconds + 1, False)])
def test_window_includes_its_first_second(last, starts):
    state = Quarantine(POLICY)

    assert [state.failed(now, "broken") for now in (0, 1, last)] == [False, False, starts]


@pytest.mark.parametrize(("attempts", "duration"), [(1, 10), (2, 15), (5, 15)])
def test_each_failed_attempt_doubles_the_quarantine_up_to_the_limit(attempts, duration):
    state = quarantined()

    for _ in range(attempts):
        assert state.failed(state.until, "still broken")

    assert state.seconds == duration


def test_one_successful_attempt_ends_the_quarantine_and_resets_it():
    state = quarantined()

    assert state.succeeded(5)

    assert state.allows(5)
    assert not state.failed(6, "again")
    assert [state.failed(now, "again") for now in (7, 8)] == [False, True]
    assert state.seconds == POLICY.retry_seconds


def test_calls_in_flight_at_the_start_do_not_change_the_quarantine():
    state = quarantined()

    assert not state.failed(1, "late")
    assert not state.succeeded(1)

    assert state.until == 5


def test_success_ends_the_failing_period():
    state = Quarantine(POLICY)
    state.failed(1, "broken")

    assert state.failing_since == 1
    assert not state.succeeded(2)
    assert state.failing_since is None


def test_zero_failures_disable_the_quarantine():
    state = Quarantine(QuarantinePolicy(failures=0))

    assert not any(state.failed(0, "broken") for _ in range(100))


def test_one_call_is_attempted_after_the_quarantine():
    state = quarantined()

    assert state.allows(5)
    state.attempt()
    assert not state.allows(6)

    state.cancelled()
    assert state.allows(6)


def test_recovery_outside_of_calls_turns_a_quarantine_into_a_trial():
    quarantine = Quarantine(QuarantinePolicy(failures=2, retry_seconds=30))
    quarantine.failed(0, "exited")
    quarantine.recovered(0)
    assert quarantine.failing_since is None
    quarantine.failed(1, "exited")
    assert not quarantine.allows(2)

    quarantine.recovered(2)
    assert quarantine.allows(2)
    quarantine.attempt()

    assert quarantine.failed(3, "exited")
    assert not quarantine.allows(60)

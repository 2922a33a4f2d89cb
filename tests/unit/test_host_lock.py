"""Tests for the lock that exclusive tests hold while other processes run tests."""

from __future__ import annotations

import fcntl
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.host_lock import EXCLUSIVE, HostLock


def item(module, *, exclusive=False):
    return SimpleNamespace(path=Path(module), get_closest_marker=lambda name: (exclusive and name == EXCLUSIVE) or None)


def start(lock, test, following=None):
    """Start a test; the generator that is returned runs until its end."""
    steps = lock.pytest_runtest_protocol(test, following)
    next(steps)
    return steps


def finish(steps):
    with pytest.raises(StopIteration):
        steps.send(None)


@pytest.fixture
def is_free(tmp_path):
    """Function that returns whether another process could start a shared or an exclusive test."""

    def check(how):
        with (tmp_path / "tests-host.lock").open("ab") as file:
            try:
                fcntl.flock(file, how | fcntl.LOCK_NB)
            except BlockingIOError:
                return False
            return True

    return lambda: (check(fcntl.LOCK_SH), check(fcntl.LOCK_EX))


def test_ordinary_tests_run_in_parallel_but_not_with_exclusive_ones(tmp_path, is_free):
    first = start(HostLock(tmp_path), item("a"))
    second = start(HostLock(tmp_path), item("b"))

    assert is_free() == (True, False)
    finish(first)
    finish(second)
    assert is_free() == (True, True)


def test_exclusive_test_runs_without_others(tmp_path, is_free):
    running = start(HostLock(tmp_path), item("a", exclusive=True))

    assert is_free() == (False, False)
    finish(running)
    assert is_free() == (True, True)


def test_lock_is_held_between_the_exclusive_tests_of_a_module(tmp_path, is_free):
    lock, test = HostLock(tmp_path), item("a", exclusive=True)

    finish(start(lock, test, test))
    assert is_free() == (False, False)
    finish(start(lock, test, item("b", exclusive=True)))
    assert is_free() == (True, True)

"""Lock between the processes of a distributed run, for tests that need the host without other tests."""

from __future__ import annotations

import fcntl
from collections.abc import Iterator
from pathlib import Path
from typing import IO

import pytest

EXCLUSIVE = "exclusive"
"""Marker of tests that measure or use what the complete host has once."""


class HostLock:
    """Plugin that holds the lock during each test, shared by all tests except exclusive ones.

    A waiting exclusive test delays the start of other tests, so it waits only for those that run already.

    :param directory: directory for the lock files.
    """

    def __init__(self, directory: Path) -> None:
        directory.mkdir(exist_ok=True)
        self._turn, self._host = (directory / name for name in ("tests-turn.lock", "tests-host.lock"))
        self._held: IO[bytes] | None = None

    @pytest.hookimpl(wrapper=True, tryfirst=True)  # The time limit of a test excludes the time it waits here.
    def pytest_runtest_protocol(self, item: pytest.Item, nextitem: pytest.Item | None) -> Iterator[None]:
        exclusive = item.get_closest_marker(EXCLUSIVE) is not None
        if self._held is None:
            self._held = self._acquire(fcntl.LOCK_EX if exclusive else fcntl.LOCK_SH)
        try:
            return (yield)
        finally:
            if not (exclusive and nextitem is not None and nextitem.path == item.path):
                self._held.close()
                self._held = None

    def _acquire(self, how: int) -> IO[bytes]:
        with self._turn.open("ab") as turn:
            fcntl.flock(turn, fcntl.LOCK_EX)
            held = self._host.open("ab")
            fcntl.flock(held, how)
            return held

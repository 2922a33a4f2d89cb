"""Tests for the stacks of the contention profile; they need no time."""

import threading

from nodeagent.base.profiling import contention
from nodeagent.base.profiling.contention import ContentionProfile


def first(profile, **options):
    profile._record(threading.get_ident(), **options)


def second(profile, **options):
    profile._record(threading.get_ident(), **options)


def recorded(profile):
    return {
        next(frame.function for frame in stack if frame.function in ("first", "second")): values
        for stack, values in profile.stacks().items()
    }


def test_delays_and_their_time_are_added_by_stack():
    profile = ContentionProfile()
    for is_first, nanoseconds in ((True, 5), (False, 7), (True, 9)):
        first(profile, first=is_first, nanoseconds=nanoseconds)
    second(profile, first=True, nanoseconds=1)

    assert recorded(profile) == {"first": (2, 21), "second": (1, 1)}


def test_number_of_stacks_is_limited(monkeypatch):
    monkeypatch.setattr(contention, "MAX_STACKS", 1)
    profile = ContentionProfile()
    for _ in range(2):
        for function in (first, second):
            function(profile, first=True, nanoseconds=1)

    assert recorded(profile) == {"first": (2, 2)}


def test_ended_thread_is_ignored():
    profile = ContentionProfile()
    profile._record(0, first=True, nanoseconds=1)
    assert profile.stacks() == {}

"""Tests for the limit on events about one object."""

from __future__ import annotations

from nodeagent.testing import FakeClock
from nodeagent_plugins.event_recorder.spam import BURST, REFILL_SECONDS, SpamFilter


def accepted(spam: SpamFilter, subject: str, tries: int) -> int:
    return sum(spam.accept(subject) for _ in range(tries))


async def test_burst_is_accepted_per_object_then_one_per_refill(clock: FakeClock) -> None:
    spam = SpamFilter(clock)

    first, other = accepted(spam, "web", 100), accepted(spam, "db", 3)
    await clock.advance(REFILL_SECONDS - 1)
    early = accepted(spam, "web", 1)
    await clock.advance(1)
    refilled = accepted(spam, "web", 2)

    assert (first, other, early, refilled) == (BURST, 3, 0, 1)


async def test_bucket_never_holds_more_than_the_burst(clock: FakeClock) -> None:
    spam = SpamFilter(clock)
    accepted(spam, "web", 1)

    await clock.advance(1000 * REFILL_SECONDS)

    assert accepted(spam, "web", 100) == BURST


async def test_least_recently_used_bucket_is_evicted(clock: FakeClock) -> None:
    spam = SpamFilter(clock, capacity=2)
    accepted(spam, "web", 100)
    accepted(spam, "db", 100)
    accepted(spam, "web", 1)

    accepted(spam, "new", 1)

    assert (accepted(spam, "web", 1), accepted(spam, "db", 1)) == (0, 1)

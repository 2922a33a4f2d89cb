"""Tests for rate limits per key."""

from __future__ import annotations

from nodeagent.base.aio import TokenBuckets
from nodeagent.testing import FakeClock

BURST, REFILL_SECONDS = 25, 300.0


def make(clock: FakeClock, capacity: int = 10) -> TokenBuckets:
    return TokenBuckets(1 / REFILL_SECONDS, BURST, clock, capacity)


def taken(buckets: TokenBuckets, key: str, tries: int) -> int:
    return sum(buckets.try_take(key) for _ in range(tries))


async def test_burst_is_taken_per_key_then_one_per_refill(clock: FakeClock) -> None:
    buckets = make(clock)

    first, other = taken(buckets, "web", 100), taken(buckets, "db", 3)
    await clock.advance(REFILL_SECONDS - 1)
    early = taken(buckets, "web", 1)
    await clock.advance(1)
    refilled = taken(buckets, "web", 2)

    assert (first, other, early, refilled) == (BURST, 3, 0, 1)


async def test_bucket_never_holds_more_than_the_burst(clock: FakeClock) -> None:
    buckets = make(clock)
    taken(buckets, "web", 1)

    await clock.advance(1000 * REFILL_SECONDS)

    assert taken(buckets, "web", 100) == BURST


async def test_least_recently_used_bucket_is_evicted(clock: FakeClock) -> None:
    buckets = make(clock, capacity=2)
    taken(buckets, "web", 100)
    taken(buckets, "db", 100)
    taken(buckets, "web", 1)

    taken(buckets, "new", 1)

    assert (taken(buckets, "web", 1), taken(buckets, "db", 1)) == (0, 1)


async def test_forgotten_bucket_is_full(clock: FakeClock) -> None:
    buckets = make(clock)
    taken(buckets, "web", BURST)

    buckets.forget("web")

    assert taken(buckets, "web", 100) == BURST

"""Tests for rate limits."""

from __future__ import annotations

import asyncio

from nodeagent.base.aio import TokenBucket, TokenBuckets
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


class Waiters:
    """Tasks that take a token of one bucket, which has none and gets one per second."""

    def __init__(self, clock: FakeClock) -> None:
        self._bucket, self._clock = TokenBucket(1, 1, clock), clock
        self._bucket.try_take()
        self.served: list[str] = []

    async def arrive(self, name: str, patience_seconds: float = 0.0) -> asyncio.Task[None]:
        task = asyncio.create_task(self._take(name, patience_seconds))
        await self._clock.settle()
        return task

    async def _take(self, name: str, patience_seconds: float) -> None:
        await self._bucket.take(patience_seconds)
        self.served.append(name)


async def test_waiters_are_served_in_order_of_arrival(clock: FakeClock) -> None:
    waiters = Waiters(clock)
    for name in "abc":
        await waiters.arrive(name)

    await clock.advance(2)
    served = [*waiters.served]
    await waiters.arrive("d")
    await clock.advance(2)

    assert (served, waiters.served) == (["a", "b"], ["a", "b", "c", "d"])


async def test_patient_waiter_lets_others_pass_until_its_time_is_over(clock: FakeClock) -> None:
    waiters = Waiters(clock)
    await waiters.arrive("patient", 2.5)

    for name in "abcde":
        await waiters.arrive(name)
        await clock.advance(1)
    await clock.advance(1)

    assert waiters.served == ["a", "b", "c", "patient", "d", "e"]


async def test_patient_waiter_is_served_if_no_other_one_waits(clock: FakeClock) -> None:
    waiters = Waiters(clock)
    await waiters.arrive("patient", 100)

    await clock.advance(1)

    assert waiters.served == ["patient"]


async def test_cancelled_waiter_leaves_its_token_to_the_next_one(clock: FakeClock) -> None:
    waiters = Waiters(clock)
    first, second = await waiters.arrive("a"), await waiters.arrive("b")
    await waiters.arrive("c")

    first.cancel()
    second.cancel()
    await clock.settle()
    await clock.advance(1)

    assert waiters.served == ["c"]

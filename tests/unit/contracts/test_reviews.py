"""Tests for reviews: retries and the cache of results."""

from __future__ import annotations

import asyncio

import pytest

from nodeagent.base.aio import TaskOwner
from nodeagent.contracts.reviews import TOKEN_REVIEWS, ReviewCache, review
from nodeagent.errors import ApiError, ApiUnavailable
from nodeagent.testing import FakeApi
from nodeagent.testing.clock import eventually


@pytest.fixture
async def tasks():
    async with TaskOwner("test") as owner:
        yield owner


async def test_concurrent_requests_share_a_review_and_may_be_cancelled(clock, tasks):
    cache, calls, ready = ReviewCache(clock, tasks), [], asyncio.Event()

    async def fetch():
        calls.append(1)
        await ready.wait()
        return "yes", 10.0

    first, second = (asyncio.create_task(cache.get("key", fetch)) for _ in range(2))
    await eventually(lambda: calls)
    first.cancel()
    ready.set()

    assert await second == "yes"
    assert len(calls) == 1


async def test_result_is_cached_for_its_lifetime_and_error_is_not(clock, tasks):
    cache, replies = ReviewCache(clock, tasks), ["a", ApiError("no"), "b"]

    async def fetch():
        reply = replies.pop(0)
        if isinstance(reply, ApiError):
            raise reply
        return reply, 10.0

    assert await cache.get("key", fetch) == "a"
    await clock.advance(9)
    assert await cache.get("key", fetch) == "a"
    await clock.advance(2)
    with pytest.raises(ApiError):
        await cache.get("key", fetch)
    assert await cache.get("key", fetch) == "b"


async def test_oldest_entry_is_evicted_at_the_limit(clock, tasks):
    cache, calls = ReviewCache(clock, tasks, max_entries=2), []

    async def get(key):
        async def fetch():
            calls.append(key)
            return key, 10.0

        return await cache.get(key, fetch)

    for key in (1, 2, 3, 3, 2, 1):
        await get(key)

    assert calls == [1, 2, 3, 1]


@pytest.mark.parametrize(("error", "tries"), [(ApiUnavailable("down"), 5), (ApiError("no", code=403), 1)])
async def test_only_transient_errors_are_retried(clock, error, tries):
    api = FakeApi(clock)
    api.fail("create", error, times=None)

    reviewing = asyncio.create_task(review(api, TOKEN_REVIEWS, {"token": "t"}, clock))
    while not reviewing.done():
        await asyncio.sleep(0)
        await clock.advance(1)

    with pytest.raises(ApiError):
        await reviewing
    assert len(api.made("create")) == tries

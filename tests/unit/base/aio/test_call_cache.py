"""Tests for the cache of remote calls."""

from __future__ import annotations

import asyncio

import pytest

from nodeagent.base.aio import TaskOwner
from nodeagent.base.aio.call_cache import CallCache
from nodeagent.errors import ApiError
from nodeagent.testing.clock import eventually


@pytest.fixture
async def tasks():
    async with TaskOwner("test") as owner:
        yield owner


def make(clock, tasks, **options):
    return CallCache(clock, tasks, ApiError, "call", **options)


async def test_result_without_lifetime_is_not_cached(clock, tasks):
    cache, called = make(clock, tasks), []

    async def call():
        called.append(1)
        return "yes", 0.0

    for _ in range(2):
        assert await cache.get("key", call) == "yes"
    assert len(called) == 2


async def test_concurrent_calls_are_shared_and_survive_one_caller(clock, tasks):
    cache, called, ready = make(clock, tasks), [], asyncio.Event()

    async def call():
        called.append(1)
        await ready.wait()
        return "yes", 10.0

    first, second = (asyncio.create_task(cache.get("key", call)) for _ in range(2))
    await eventually(lambda: called)
    first.cancel()
    ready.set()

    assert await second == "yes"
    assert len(called) == 1


async def test_result_expires_and_error_is_not_cached(clock, tasks):
    cache, replies = make(clock, tasks), ["a", ApiError("no"), "b"]

    async def call():
        reply = replies.pop(0)
        if isinstance(reply, ApiError):
            raise reply
        return reply, 10.0

    assert await cache.get("key", call) == "a"
    await clock.advance(9)
    assert await cache.get("key", call) == "a"
    await clock.advance(2)
    with pytest.raises(ApiError):
        await cache.get("key", call)
    assert await cache.get("key", call) == "b"


async def test_full_cache_evicts_the_least_recently_used(clock, tasks):
    cache, called = make(clock, tasks, max_results=2), []

    async def get(key):
        async def call():
            called.append(key)
            return key, 10.0

        return await cache.get(key, call)

    for key in (1, 2, 1, 3, 1, 2):
        await get(key)

    assert called == [1, 2, 3, 2]

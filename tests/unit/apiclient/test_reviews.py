"""A question about others is asked once, tried again when that may help, and its answer kept for its time."""

from __future__ import annotations

import asyncio

import pytest

from nodeagent.apiclient.reviews import TOKEN_REVIEWS, Answers, review
from nodeagent.base.aio import TaskOwner
from nodeagent.errors import ApiError, ApiUnavailable
from nodeagent.testing import FakeApi
from nodeagent.testing.clock import eventually


@pytest.fixture
async def tasks():
    async with TaskOwner("test") as owner:
        yield owner


async def test_all_who_wait_for_one_answer_share_it_and_one_may_leave(clock, tasks):
    answers, asked, ready = Answers(clock, tasks), [], asyncio.Event()

    async def ask():
        asked.append(1)
        await ready.wait()
        return "yes", 10.0

    first, second = (asyncio.create_task(answers.get("key", ask)) for _ in range(2))
    await eventually(lambda: asked)
    first.cancel()
    ready.set()

    assert await second == "yes"
    assert len(asked) == 1


async def test_an_answer_is_forgotten_in_time_and_a_failure_at_once(clock, tasks):
    answers, replies = Answers(clock, tasks), ["a", ApiError("no"), "b"]

    async def ask():
        reply = replies.pop(0)
        if isinstance(reply, ApiError):
            raise reply
        return reply, 10.0

    assert await answers.get("key", ask) == "a"
    await clock.advance(9)
    assert await answers.get("key", ask) == "a"
    await clock.advance(2)
    with pytest.raises(ApiError):
        await answers.get("key", ask)
    assert await answers.get("key", ask) == "b"


async def test_no_more_than_the_bound_is_remembered(clock, tasks):
    answers, asked = Answers(clock, tasks, max_answers=2), []

    async def get(key):
        async def ask():
            asked.append(key)
            return key, 10.0

        return await answers.get(key, ask)

    for key in (1, 2, 3, 3, 2, 1):
        await get(key)

    assert asked == [1, 2, 3, 1]


@pytest.mark.parametrize(("error", "tries"), [(ApiUnavailable("gone"), 5), (ApiError("no", code=403), 1)])
async def test_only_what_may_pass_is_tried_again(clock, error, tries):
    api = FakeApi(clock)
    api.fail("create", error, times=None)

    asking = asyncio.create_task(review(api, TOKEN_REVIEWS, {"token": "t"}, clock))
    while not asking.done():
        await asyncio.sleep(0)
        await clock.advance(1)

    with pytest.raises(ApiError):
        await asking
    assert len(api.made("create")) == tries

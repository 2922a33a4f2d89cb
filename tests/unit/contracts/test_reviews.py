"""Tests for the retries of reviews."""

from __future__ import annotations

import asyncio

import pytest

from nodeagent.contracts.reviews import TOKEN_REVIEWS, review
from nodeagent.errors import ApiError, ApiUnavailable
from nodeagent.testing import FakeApi


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

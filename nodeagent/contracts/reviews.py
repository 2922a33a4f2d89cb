"""Token and subject access reviews by the API server."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from nodeagent.base.aio import Backoff, Clock
from nodeagent.contracts.api import Api, Resource
from nodeagent.errors import ApiError

TOKEN_REVIEWS = Resource("authentication", "v1", "tokenreviews", "TokenReview", namespaced=False)
SUBJECT_ACCESS_REVIEWS = Resource(
    "authorization", "v1", "subjectaccessreviews", "SubjectAccessReview", namespaced=False
)

TRIES = 5
REVIEW_SECONDS = 10.0


async def review(api: Api, resource: Resource, spec: Mapping[str, Any], clock: Clock) -> Mapping[str, Any]:
    """Post a review and return its status; transient errors are retried, within 10 seconds in total.

    :raises ApiError: all attempts failed.
    """
    backoff = Backoff(0.5, REVIEW_SECONDS, factor=1.5, jitter=0.2)
    try:
        async with asyncio.timeout(REVIEW_SECONDS):
            for tries_left in range(TRIES - 1, -1, -1):
                try:
                    response = await api.create(resource, {"metadata": {}, "spec": spec})
                    status = response.get("status")
                    return status if isinstance(status, Mapping) else {}
                except ApiError as error:
                    if not tries_left or not (error.transient or error.code == 429 or error.code >= 500):
                        raise
                await clock.sleep(backoff.next())
    except TimeoutError as error:
        raise ApiError(f"no response to a review within {REVIEW_SECONDS:g} s", transient=True) from error
    raise AssertionError("unreachable")

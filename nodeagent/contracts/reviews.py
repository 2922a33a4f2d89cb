"""Token and subject access reviews by the API server, with a cache of their results."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Hashable, Mapping
from typing import Any, Generic, TypeVar

from nodeagent.base.aio import Backoff, Clock, TaskOwner
from nodeagent.contracts.api import Api, Resource
from nodeagent.errors import ApiError

TOKEN_REVIEWS = Resource("authentication", "v1", "tokenreviews", "TokenReview", namespaced=False)
SUBJECT_ACCESS_REVIEWS = Resource(
    "authorization", "v1", "subjectaccessreviews", "SubjectAccessReview", namespaced=False
)

TRIES = 5
REVIEW_SECONDS = 10.0
MAX_ENTRIES = 4096

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


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


class ReviewCache(Generic[K, V]):
    """Cache of results with individual lifetimes; concurrent requests for the same key share one review.

    Errors are not cached. At most *max_entries* are cached; the oldest is evicted first.
    """

    def __init__(self, clock: Clock, tasks: TaskOwner, max_entries: int = MAX_ENTRIES) -> None:
        self._clock, self._tasks, self._max = clock, tasks, max_entries
        self._cached: dict[K, tuple[V, float]] = {}
        self._pending: dict[K, asyncio.Task[V | ApiError]] = {}

    async def get(self, key: K, fetch: Callable[[], Awaitable[tuple[V, float]]]) -> V:
        """Return the result for *key*; *fetch* returns a new one and its lifetime in seconds.

        :raises ApiError: the review failed.
        """
        cached = self._cached.get(key)
        if cached is not None and self._clock.now() < cached[1]:
            return cached[0]
        task = self._pending.get(key)
        if task is None:
            # Owned by the agent: other clients still need the result if this one disconnects.
            task = self._pending[key] = self._tasks.start(self._fetch(key, fetch), "review")
        result = await asyncio.shield(task)
        if isinstance(result, ApiError):
            raise result
        return result

    async def _fetch(self, key: K, fetch: Callable[[], Awaitable[tuple[V, float]]]) -> V | ApiError:
        try:
            result, seconds = await fetch()
        except ApiError as error:
            return error
        finally:
            del self._pending[key]
        self._cached.pop(key, None)
        if seconds > 0:
            while len(self._cached) >= self._max:
                del self._cached[next(iter(self._cached))]
            self._cached[key] = result, self._clock.now() + seconds
        return result

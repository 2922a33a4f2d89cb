"""Questions to the API server about others: who is this, and may they? Each is asked once and remembered a while."""

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
MAX_ANSWERS = 4096

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


async def review(api: Api, resource: Resource, spec: Mapping[str, Any], clock: Clock) -> Mapping[str, Any]:
    """Post a review and return its status; what may pass is tried again, 10 seconds in all.

    :raises ApiError: there is no answer.
    """
    backoff = Backoff(0.5, REVIEW_SECONDS, factor=1.5, jitter=0.2)
    try:
        async with asyncio.timeout(REVIEW_SECONDS):
            for tries_left in range(TRIES - 1, -1, -1):
                try:
                    answer = await api.create(resource, {"metadata": {}, "spec": spec})
                    status = answer.get("status")
                    return status if isinstance(status, Mapping) else {}
                except ApiError as error:
                    if not tries_left or not (error.transient or error.code == 429 or error.code >= 500):
                        raise
                await clock.sleep(backoff.next())
    except TimeoutError as error:
        raise ApiError(f"no answer to a review within {REVIEW_SECONDS:g} s", transient=True) from error
    raise AssertionError("unreachable")


class Answers(Generic[K, V]):
    """Remembers answers, each for a time of its own, and asks once for all who wait for the same one.

    Failures are not remembered. At most *max_answers* are kept; the oldest goes first.
    """

    def __init__(self, clock: Clock, tasks: TaskOwner, max_answers: int = MAX_ANSWERS) -> None:
        self._clock, self._tasks, self._max = clock, tasks, max_answers
        self._known: dict[K, tuple[V, float]] = {}
        self._asked: dict[K, asyncio.Task[V | ApiError]] = {}

    async def get(self, key: K, ask: Callable[[], Awaitable[tuple[V, float]]]) -> V:
        """Return the answer for *key*; *ask* gives a new one with the seconds it holds.

        :raises ApiError: there is none.
        """
        known = self._known.get(key)
        if known is not None and self._clock.now() < known[1]:
            return known[0]
        task = self._asked.get(key)
        if task is None:
            # Owned by the agent: a client that leaves does not take the answer from the others.
            task = self._asked[key] = self._tasks.start(self._ask(key, ask), "review")
        answer = await asyncio.shield(task)
        if isinstance(answer, ApiError):
            raise answer
        return answer

    async def _ask(self, key: K, ask: Callable[[], Awaitable[tuple[V, float]]]) -> V | ApiError:
        try:
            answer, seconds = await ask()
        except ApiError as error:
            return error
        finally:
            del self._asked[key]
        self._known.pop(key, None)
        if seconds > 0:
            while len(self._known) >= self._max:
                del self._known[next(iter(self._known))]
            self._known[key] = answer, self._clock.now() + seconds
        return answer

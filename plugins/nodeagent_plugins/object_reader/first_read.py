"""The wait of readers for the first list of a selection that is being followed."""

from __future__ import annotations

import asyncio

from nodeagent.base.aio import Clock
from nodeagent.base.aio.waker import wait_for
from nodeagent.errors import ApiError, ApiUnavailable

LONGEST_SECONDS = 60.0
"""Limit of the first attempt, which may wait for the rate limit; the client limits the request itself."""
RETRY_SECONDS = 2.0
"""Time for another attempt after one that has failed, as on a node that may not read an object of a new pod yet."""


class FirstRead:
    """First list of a selection."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._attempted, self._listed = asyncio.Event(), asyncio.Event()
        self._error = ""

    def restart(self) -> None:
        """Wait for the next list, as the selection may be outdated."""
        self._attempted.clear()
        self._listed.clear()
        self._error = ""

    def succeed(self) -> None:
        """Record the list; readers continue."""
        self._listed.set()
        self._attempted.set()

    def fail(self, error: ApiError) -> None:
        """Record the error of an attempt, which is repeated."""
        self._error = str(error)
        self._attempted.set()

    @property
    def done(self) -> bool:
        """True once the selection has been listed."""
        return self._listed.is_set()

    async def wait(self, seconds: float = LONGEST_SECONDS, retry_seconds: float = RETRY_SECONDS) -> None:
        """Wait for the list.

        :param seconds: limit of the wait for the first attempt.
        :param retry_seconds: limit of the wait for another attempt after a failed one.
        :raises ApiUnavailable: the selection cannot be listed now.
        """
        await wait_for(self._attempted, self._clock, seconds)
        if self._attempted.is_set():
            await wait_for(self._listed, self._clock, retry_seconds)
        if not self._listed.is_set():
            raise ApiUnavailable(self._error or f"no response within {seconds:g} s")

"""Retry-After of throttled requests: longer while many are throttled, so that clients reduce the load. No I/O."""

from __future__ import annotations

from collections import deque

LONGEST_SECONDS = 32
_MANY = 3
"""Rejected requests per second of the current delay above which the delay doubles."""


class RetryAfter:
    """Adapts the delay of one priority level to the number of requests that it rejects.

    :attr:`seconds` doubles if at least three requests per second were rejected during the last :attr:`seconds` seconds,
    and at most once in that time; it decreases by one if fewer than one request per second was rejected.
    """

    __slots__ = ("_count", "_history", "_raised", "_second", "seconds")

    def __init__(self) -> None:
        self.seconds = 1
        self._second, self._count, self._raised = 0, 0, 0
        self._history: deque[tuple[int, int]] = deque()
        """Past seconds and the number of requests rejected in each; seconds without rejections are omitted."""

    def record_rejection(self, now: float) -> int:
        """Record a request rejected at *now* (monotonic time in seconds) and return its Retry-After in seconds."""
        second = int(now)
        if second == self._second:
            self._count += 1
            return self.seconds
        if self._count:
            self._history.append((self._second, self._count))
        self._second, self._count = second, 1
        while self._history and second - self._history[0][0] > LONGEST_SECONDS:
            self._history.popleft()
        many = sum(count for past, count in self._history if second - past <= self.seconds)
        if many >= _MANY * self.seconds and second - self._raised >= self.seconds:
            self.seconds, self._raised = min(2 * self.seconds, LONGEST_SECONDS), second
        elif many < self.seconds and self.seconds > 1:
            self.seconds -= 1
        return self.seconds

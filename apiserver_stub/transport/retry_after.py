"""How long callers who were turned away should stay away: longer while many are, so that they help to end it. Pure."""

from __future__ import annotations

from collections import deque

LONGEST_SECONDS = 32
_MANY = 3
"""Refusals for each second of the time that is told."""


class RetryAfter:
    """Follows the refusals of one level, second by second.

    :attr:`seconds` doubles, at most once in so many seconds, when at least three times as many callers were turned away
    in as many seconds; it falls by one when they were fewer than the seconds.
    """

    __slots__ = ("_count", "_history", "_raised", "_second", "seconds")

    def __init__(self) -> None:
        self.seconds = 1
        self._second, self._count, self._raised = 0, 0, 0
        self._history: deque[tuple[int, int]] = deque()
        """Seconds that are over, and how many were turned away in each; those without any are left out."""

    def refused(self, now: float) -> int:
        """Note that a caller is turned away at *now* (seconds in any common count) and return what it is told."""
        second = int(now)
        if second == self._second:
            self._count += 1
            return self.seconds
        if self._count:
            self._history.append((self._second, self._count))
        self._second, self._count = second, 1
        while self._history and second - self._history[0][0] > LONGEST_SECONDS:
            self._history.popleft()
        many = sum(count for moment, count in self._history if second - moment <= self.seconds)
        if many >= _MANY * self.seconds and second - self._raised >= self.seconds:
            self.seconds, self._raised = min(2 * self.seconds, LONGEST_SECONDS), second
        elif many < self.seconds and self.seconds > 1:
            self.seconds -= 1
        return self.seconds

"""Seat borrowing between priority levels: seat demand and allocation of concurrency limits. No I/O."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

_DECAY = 0.977
"""Decay of the smoothed demand per period; its half-life is five minutes."""
_LEAST_TARGET = 0.001
_ITERATIONS = 60


class SeatDemand:
    """Seat demand of a priority level: occupied and requested seats, per adjustment period.

    :attr:`highest` and :attr:`smoothed` are values of the last completed period. The smoothed demand follows the
    envelope (time-weighted average plus standard deviation) immediately upwards and slowly downwards.
    """

    __slots__ = ("_current", "_most", "_since", "_squares", "_started", "_sum", "highest", "smoothed")

    def __init__(self, now: float) -> None:
        self.highest, self.smoothed = 0, 0.0
        self._current, self._most = 0, 0
        self._started = self._since = now
        self._sum = self._squares = 0.0

    def note(self, seats: int, now: float) -> None:
        """Record a demand of *seats* from *now* on."""
        passed, before = now - self._since, self._current
        self._sum += before * passed
        self._squares += before * before * passed
        self._since, self._current = now, seats
        self._most = max(self._most, seats)

    def close(self, now: float) -> None:
        """Complete the period and start the next one."""
        self.note(self._current, now)
        self.highest = self._most
        if (length := now - self._started) > 0:
            average = self._sum / length
            deviation = math.sqrt(max(0.0, self._squares / length - average * average))
            envelope = average + deviation
            self.smoothed = max(envelope, _DECAY * self.smoothed + (1 - _DECAY) * envelope)
        self._started, self._most = now, self._current
        self._sum = self._squares = 0.0


class SeatTarget(NamedTuple):
    """Minimum, maximum and target number of seats of a priority level."""

    least: float
    most: float
    target: float


def allocate_seats(seats: int, levels: Sequence[SeatTarget]) -> list[int]:
    """Divide *seats* proportionally to the targets of *levels*, within their bounds; return the seats per level.

    The sum of the minimums must not exceed *seats*, and the sum of the maximums must not be less.
    """

    def allocation(part: float) -> list[float]:
        return [min(level.most, max(level.least, part * max(level.target, _LEAST_TARGET))) for level in levels]

    low, high = 0.0, max(level.most / max(level.target, _LEAST_TARGET) for level in levels)
    for _ in range(_ITERATIONS):
        middle = (low + high) / 2
        if sum(allocation(middle)) < seats:
            low = middle
        else:
            high = middle
    return [rounded(share) for share in allocation(high)]


def rounded(seats: float) -> int:
    """Return a whole number of seats; halves are rounded up, as upstream."""
    return math.floor(seats + 0.5)

"""How many seats each of several levels has now: what one does not need goes to those that need more. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

_DECAY = 0.977
"""Per period: a demand that is gone counts half after five minutes."""
_LEAST_TARGET = 0.001
_ROUNDS = 60


class SeatDemand:
    """How many seats a level could have used, over one period after the other.

    :attr:`highest` and :attr:`smoothed` are those of the last period that was closed; what is smoothed follows the
    usual demand (average and standard deviation over time) up at once and down slowly.
    """

    __slots__ = ("_begun", "_most", "_now", "_since", "_squares", "_sum", "highest", "smoothed")

    def __init__(self, moment: float) -> None:
        self.highest, self.smoothed = 0, 0.0
        self._now, self._most = 0, 0
        self._begun = self._since = moment
        self._sum = self._squares = 0.0

    def note(self, seats: int, moment: float) -> None:
        """From *moment* on, *seats* could be used."""
        passed, before = moment - self._since, self._now
        self._sum += before * passed
        self._squares += before * before * passed
        self._since, self._now = moment, seats
        self._most = max(self._most, seats)

    def close(self, moment: float) -> None:
        """End the period and begin the next."""
        self.note(self._now, moment)
        self.highest = self._most
        if (length := moment - self._begun) > 0:
            average = self._sum / length
            deviation = math.sqrt(max(0.0, self._squares / length - average * average))
            usual = average + deviation
            self.smoothed = max(usual, _DECAY * self.smoothed + (1 - _DECAY) * usual)
        self._begun, self._most = moment, self._now
        self._sum = self._squares = 0.0


class SeatTarget(NamedTuple):
    """What a level must have, may have and would like to have."""

    least: float
    most: float
    target: float


def allocate_seats(seats: int, wishes: Sequence[SeatTarget]) -> list[int]:
    """Return how many of *seats* each gets: the same part or multiple of its target, within its bounds.

    The sum of what all must have is not over *seats*, and that of what they may have not under it.
    """

    def given(part: float) -> list[float]:
        return [min(wish.most, max(wish.least, part * max(wish.target, _LEAST_TARGET))) for wish in wishes]

    low, high = 0.0, max(wish.most / max(wish.target, _LEAST_TARGET) for wish in wishes)
    for _ in range(_ROUNDS):
        middle = (low + high) / 2
        if sum(given(middle)) < seats:
            low = middle
        else:
            high = middle
    return [round(share) for share in given(high)]

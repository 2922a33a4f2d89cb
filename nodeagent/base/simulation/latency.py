"""Latencies of simulated services."""

from __future__ import annotations

import random


class Latency:
    """Delays in seconds from a seed; a few are much longer than the others.

    :ivar factor: multiplies all delays while a service is slow.
    """

    def __init__(self, seed: object, typical: float, slow: float = 1.0) -> None:
        self.random = random.Random(f"{seed}/latency")
        self._typical, self._slow = typical, slow
        self.factor = 1.0

    def __call__(self) -> float:
        chance = self.random.random()
        longest = self._slow if chance < 0.005 else self._typical
        return self.random.random() * longest * self.factor

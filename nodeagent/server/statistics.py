"""Counts of requests, kept as numbers until somebody asks for metrics."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from dataclasses import dataclass, field

BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
_METHODS = frozenset({"GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS"})

Labels = tuple[str, str, str, str]
"""method, path, server_type, long_running"""


@dataclass(slots=True)
class Timing:
    """A histogram: requests a bucket (the last is beyond every bound), and seconds in all."""

    buckets: list[int] = field(default_factory=lambda: [0] * (len(BUCKETS) + 1))
    seconds: float = 0.0


class Statistics:
    """What all ports of the server have answered."""

    def __init__(self) -> None:
        self.requests: Counter[Labels] = Counter()
        self.timings: dict[Labels, Timing] = {}
        self.inflight = 0

    def begin(self) -> None:
        self.inflight += 1

    def end(self, method: str, path: str, server_type: str, long_running: bool, seconds: float) -> None:
        """Count one request; unknown methods share one name."""
        self.inflight -= 1
        labels = (method if method in _METHODS else "other", path, server_type, str(long_running).lower())
        self.requests[labels] += 1
        timing = self.timings.setdefault(labels, Timing())
        timing.buckets[bisect_left(BUCKETS, seconds)] += 1
        timing.seconds += seconds

"""Call statistics of hooks. No I/O."""

from __future__ import annotations

from bisect import bisect_left
from itertools import accumulate

from msgspec import field

from nodeagent.base.structs import MutableStruct

SECONDS = (0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
"""Upper bounds of the duration buckets."""


class HookStats(MutableStruct):
    """Call statistics of one plugin and async hook."""

    calls: int = 0
    failures: int = 0
    abandoned: int = 0
    """Calls that ignored their cancellation at the deadline; included in the failures."""
    skipped: int = 0
    """Calls that were not made because the plugin was in quarantine."""
    seconds: float = 0.0
    """Total duration of the calls."""
    cpu_seconds: float = 0.0
    """CPU time of the agent's thread in the calls."""
    longest_seconds: float = 0.0
    """Duration of the longest call."""
    longest_step_seconds: float = 0.0
    """Longest time for which a call occupied the event loop."""
    counts: list[int] = field(default_factory=lambda: [0] * (len(SECONDS) + 1))
    """Calls per bucket of :data:`SECONDS`, and longer ones."""

    def observe(self, seconds: float) -> None:
        """Count the duration of a call that has returned or was abandoned."""
        self.seconds += seconds
        self.longest_seconds = max(self.longest_seconds, seconds)
        self.counts[bisect_left(SECONDS, seconds)] += 1

    def quantile(self, share: float) -> float | None:
        """Return an upper bound of the duration of the given *share* of calls, such as 0.99; ``None`` without calls."""
        total = sum(self.counts)
        if not total:
            return None
        index = next(i for i, reached in enumerate(accumulate(self.counts)) if reached >= share * total)
        return min(SECONDS[index], self.longest_seconds) if index < len(SECONDS) else self.longest_seconds

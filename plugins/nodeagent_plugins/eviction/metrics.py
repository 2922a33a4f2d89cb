"""What is counted about evictions."""

from __future__ import annotations

from nodeagent.base.metrics import Counter, Histogram

EVICTIONS = Counter(
    "evictions", "Cumulative number of pod evictions by eviction signal or exceeded limit", ("eviction_signal",)
)
STATS_AGE = Histogram(
    "eviction_stats_age_seconds",
    "How old measurements were when a pod was evicted for them, by signal.",
    ("eviction_signal",),
)

"""Eviction metrics."""

from __future__ import annotations

from nodeagent.base.metrics import Counter, Histogram

EVICTIONS = Counter(
    "evictions", "Cumulative number of pod evictions by eviction signal or exceeded limit", ("eviction_signal",)
)
STATS_AGE = Histogram(
    "eviction_stats_age_seconds",
    "Time between when stats are collected, and when pod is evicted based on those stats by eviction signal",
    ("eviction_signal",),
)

"""Threshold state between passes: thresholds to act on, and node conditions. No I/O."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from nodeagent.model.eviction_thresholds import Signal, Threshold
from nodeagent_plugins.eviction.signals import Condition, Observation, about_memory, condition_of, is_met


class Pressure:
    """Tracks since when thresholds have been met and when conditions were last observed.

    spec: config.evictionSoftGracePeriod, config.evictionMinimumReclaim, config.evictionPressureTransitionPeriod

    :param transition_seconds: how long a condition is reported after it was last observed.
    """

    def __init__(self, thresholds: Sequence[Threshold], transition_seconds: float) -> None:
        self.thresholds = tuple(thresholds)
        self._transition = transition_seconds
        self._met_since: dict[Threshold, float] = {}
        self._unresolved: frozenset[Threshold] = frozenset()
        self._condition_seen: dict[Condition, float] = {}
        self._times: dict[Signal, int] = {}
        self.conditions: frozenset[Condition] = frozenset()

    def update(self, seen: Mapping[Signal, Observation], now: float) -> list[Threshold]:
        """Update with the observations of a pass and return the thresholds to act on, most urgent first.

        A threshold that was acted on remains met until its minimum reclaim is reached. A threshold whose signal was not
        measured since the last pass is skipped, because earlier actions may not be visible yet.
        """
        met = [
            threshold
            for threshold in self.thresholds
            if is_met(threshold, seen) or (threshold in self._unresolved and is_met(threshold, seen, with_reclaim=True))
        ]
        self._met_since = {threshold: self._met_since.get(threshold, now) for threshold in met}
        for threshold in met:
            self._condition_seen[condition_of(threshold.signal)] = now
        self.conditions = frozenset(
            condition for condition, at in self._condition_seen.items() if at == now or now - at < self._transition
        )
        due = [threshold for threshold, since in self._met_since.items() if now - since >= threshold.grace_seconds]
        self._unresolved = frozenset(due)
        fresh = [threshold for threshold in due if self._is_newer(seen[threshold.signal], threshold.signal)]
        self._times = {signal: observed.time for signal, observed in seen.items()}
        return sorted(fresh, key=lambda threshold: (not about_memory(threshold.signal), not threshold.hard))

    def met_for(self, threshold: Threshold, now: float) -> float | None:
        """Return how long *threshold* has been met, in seconds, or ``None`` if it is not met."""
        since = self._met_since.get(threshold)
        return None if since is None else now - since

    def _is_newer(self, observed: Observation, signal: Signal) -> bool:
        return not observed.time or observed.time > self._times.get(signal, 0)

"""Which thresholds call for action, and which conditions the node shows, from one round to the next. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from nodeagent.model.eviction_thresholds import Signal, Threshold
from nodeagent_plugins.eviction.signals import Condition, Observation, about_memory, condition_of, is_met


class Pressure:
    """Remembers since when thresholds are met and when conditions were last seen.

    spec: config.evictionSoftGracePeriod, config.evictionMinimumReclaim, config.evictionPressureTransitionPeriod

    :param transition_seconds: how long a condition stays after it was last seen.
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
        """Take a round's observations and return the thresholds to act on, the most urgent first.

        A threshold that was acted on stays met until its minimum reclaim is reached as well. One whose signal was not
        measured again since the last round is left alone: what was done then may not show yet.
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
        """Return for how many seconds *threshold* has been met, ``None`` when it is not."""
        since = self._met_since.get(threshold)
        return None if since is None else now - since

    def _is_newer(self, observed: Observation, signal: Signal) -> bool:
        return not observed.time or observed.time > self._times.get(signal, 0)

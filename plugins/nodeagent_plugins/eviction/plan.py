"""Eviction plans: the pods that would be evicted now. Evicts nothing."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from nodeagent.contracts.eviction import (
    EvictionOutcome,
    EvictionPlan,
    PlannedPod,
    PlannedThreshold,
    PlanRequest,
    ThresholdMaps,
)
from nodeagent.model.eviction_thresholds import Signal, Threshold
from nodeagent.model.pod import Pod
from nodeagent.model.qos import is_critical
from nodeagent_plugins.eviction.candidates import CandidateSelector, Measure
from nodeagent_plugins.eviction.local_storage import find_excess
from nodeagent_plugins.eviction.pressure import Pressure
from nodeagent_plugins.eviction.ranking import explain
from nodeagent_plugins.eviction.signals import (
    Observation,
    about_disk,
    about_memory,
    is_met,
    with_computed,
)


class Planner:
    """Computes plans from new measurements and the same plugin hooks as an eviction.

    :param read: converts maps to thresholds; raises ``ValueError``.
    """

    def __init__(
        self,
        node_name: str,
        chooser: CandidateSelector,
        pressure: Pressure,
        read: Callable[[ThresholdMaps], Sequence[Threshold]],
        *,
        isolation: bool,
    ) -> None:
        self._node_name, self._selector, self._pressure, self._read = node_name, chooser, pressure, read
        self._isolation = isolation

    async def plan(self, request: PlanRequest, measure: Measure, now: float) -> EvictionPlan:
        """Return the plan for *request*.

        :param now: monotonic time.
        :raises ValueError: the thresholds or the signal of the request are invalid.
        """
        thresholds = self._pressure.thresholds
        if request.thresholds is not None:
            thresholds = with_computed(self._read(request.thresholds), measure.layout)
        requested = Signal(request.signal) if request.signal else Signal.MEMORY
        rows = [(each, self._row(each, measure.signals, now)) for each in thresholds]
        due = [each for each, row in rows if row.due_in_seconds == 0]
        due.sort(key=lambda each: (not about_memory(each.signal), not each.hard))
        signal = due[0].signal if due else None
        soon = [each.signal for each, row in rows if row.met]
        ranked_for = signal or (requested if request.signal or not soon else soon[0])
        over = await self._over_limits(measure)
        return EvictionPlan(
            node=self._node_name,
            conditions=sorted(self._pressure.conditions),
            thresholds=[row for _, row in rows],
            signal=signal or "",
            ranked_for=ranked_for,
            reclaims_disk=signal is not None and about_disk(signal),
            pods=await self._pods(
                ranked_for, measure, hard=bool(due) and due[0].hard, acts=signal is not None and not over
            ),
            over_limits=over,
        )

    def _row(self, threshold: Threshold, seen: Mapping[Signal, Observation], now: float) -> PlannedThreshold:
        observed = seen.get(threshold.signal)
        met_for = self._pressure.met_for(threshold, now)
        met = is_met(threshold, seen, with_reclaim=met_for is not None)
        due_in = max(0.0, threshold.grace_seconds - (met_for or 0.0)) if met else None
        return PlannedThreshold(
            signal=threshold.signal,
            hard=threshold.hard,
            limit=str(threshold.limit),
            quantity=threshold.limit.of(observed.capacity) if observed is not None else 0,
            available=observed.available if observed is not None else None,
            capacity=observed.capacity if observed is not None else None,
            met=met,
            due_in_seconds=due_in,
            minimum_reclaim=str(threshold.minimum_reclaim) if threshold.minimum_reclaim is not None else "",
        )

    async def _pods(self, signal: Signal, measure: Measure, *, hard: bool, acts: bool) -> list[PlannedPod]:
        """Return all active pods: the candidates in order, then the exempt pods."""
        rows, taken = [], not acts
        for candidate in await self._selector.ranked(signal, measure, hard=hard):
            why = explain(signal, candidate, measure.layout)
            veto = await self._selector.veto(candidate.pod, signal)
            if veto is not None:
                rows.append(_row(candidate.pod, EvictionOutcome.SPARED, f"{why}; {veto.value.message}", veto.plugin))
                continue
            rows.append(_row(candidate.pod, EvictionOutcome.NEXT if taken else EvictionOutcome.EVICT, why))
            taken = True
        for pod in self._selector.exempt(hard=hard):
            if is_critical(pod):
                rows.append(_row(pod, EvictionOutcome.CRITICAL, "static, mirror or of system priority"))
            else:
                rows.append(_row(pod, EvictionOutcome.ENDING, "already being evicted"))
        return rows

    async def _over_limits(self, measure: Measure) -> list[PlannedPod]:
        rows = []
        for candidate in self._selector.candidates(measure) if self._isolation else ():
            excess = find_excess(candidate.pod, candidate.usage, measure.layout) if candidate.usage else None
            if excess is None:
                continue
            veto = await self._selector.veto(candidate.pod, excess.signal)
            if veto is None:
                rows.append(_row(candidate.pod, EvictionOutcome.EVICT, excess.message.strip()))
            else:
                why = f"{excess.message}{veto.value.message}"
                rows.append(_row(candidate.pod, EvictionOutcome.SPARED, why, veto.plugin))
        return rows


def _row(pod: Pod, outcome: EvictionOutcome, why: str, plugin: str = "") -> PlannedPod:
    return PlannedPod(namespace=pod.namespace, name=pod.name, uid=pod.uid, verdict=outcome, why=why, plugin=plugin)

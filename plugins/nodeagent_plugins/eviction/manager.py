"""Eviction manager: monitor node resources and evict pods when thresholds are met."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from nodeagent.base.aio.shared_times import RUNTIME_SECONDS, until_shared
from nodeagent.base.aio.waker import Waker
from nodeagent.base.release import EVICTION_REVISED
from nodeagent.contracts.context import AgentContext
from nodeagent.contracts.events import EventType
from nodeagent.contracts.eviction import EvictionCandidate, EvictionPlan, PlanRequest, ThresholdMaps
from nodeagent.contracts.pods import KillReason, undecided_pods
from nodeagent.contracts.stats import PodUsage
from nodeagent.errors import NodeAgentError
from nodeagent.model.eviction_thresholds import Signal, Threshold, read_thresholds
from nodeagent.model.pod import Pod
from nodeagent_plugins.eviction.candidates import CandidateSelector, Measure
from nodeagent_plugins.eviction.layout import detect_layout, image_disk
from nodeagent_plugins.eviction.local_storage import LimitedPods, find_excess, has_limit
from nodeagent_plugins.eviction.memory import MemoryReading
from nodeagent_plugins.eviction.messages import REASON, eviction_message
from nodeagent_plugins.eviction.metrics import EVICTIONS, STATS_AGE
from nodeagent_plugins.eviction.plan import Planner
from nodeagent_plugins.eviction.pressure import Pressure
from nodeagent_plugins.eviction.signals import (
    Condition,
    Layout,
    Observation,
    about_disk,
    about_memory,
    is_met,
    observe,
    resource_of,
    with_computed,
)

if TYPE_CHECKING:
    from nodeagent.contracts.hooks import PluginHost

ROUND_SECONDS = 10.0
CLEANUP_SECONDS = 30.0
"""Maximum time that a pass waits for pods with a grace period to terminate."""
KILLED_SECONDS = 90.0
"""Maximum wait for killed pods: termination is slow under pressure, and evicting another pod would not help."""
CLEANUP_POLL_SECONDS = 1.0
_MEASUREMENTS = 3
"""Maximum number of measurements before an eviction: after a start, pods are added during a measurement."""
KNOWN_SECONDS = 10.0
"""Maximum time after a start that the first eviction waits for the pods of all sources to be admitted."""
KNOWN_POLL_SECONDS = 0.05
VOLUMES_SECONDS = 10.0
"""Maximum time for measuring all volumes before a pod is selected."""
PLUGIN = "eviction"
_USUAL_GRACE_SECONDS = 30

_log = logging.getLogger(__name__)


class EvictionManager:
    """Checks the node every ten seconds, or when triggered, and evicts at most one pod per pass.

    Pods over their own limits are evicted first; then images and dead containers are removed, then pods are evicted.
    Usage of pods is measured only if it affects the result. Memory pressure is handled between passes with the kernel's
    numbers, without the runtime, which is slow under pressure.
    spec: config.evictionHard, config.evictionSoft, config.evictionMaxPodGracePeriod
    """

    read_memory: Callable[[], Mapping[Signal, MemoryReading]]
    """Reads the watched memory; set by the memory watcher."""

    def __init__(self, context: AgentContext, plugins: PluginHost) -> None:
        self._context, self._plugins, self._clock = context, plugins, context.clock
        config = context.config
        self._isolation = config.local_storage_capacity_isolation
        maps = ThresholdMaps(
            hard=dict(config.eviction_hard),
            soft=dict(config.eviction_soft),
            soft_grace=dict(config.eviction_soft_grace_period),
            minimum_reclaim=dict(config.eviction_minimum_reclaim),
        )
        self.thresholds = self._read(maps)
        self._transition = config.eviction_pressure_transition_period.seconds
        self._pressure = Pressure(self.thresholds, self._transition)
        self._layout: Layout | None = None
        self._waker = Waker(context.clock)
        self._seen: Mapping[Signal, Observation] = {}
        self._image_disk: Path | None = None
        self._memory_crossed = asyncio.Event()
        self._turn = asyncio.Lock()
        self._pods_known = False
        self.read_memory = dict
        self._failing: set[str] = set()
        self._killed: set[str] = set()
        self._vetoed: frozenset[str] = frozenset()
        self._created_selector: CandidateSelector | None = None
        self._limited_pods = LimitedPods()

    @property
    def conditions(self) -> frozenset[Condition]:
        """Conditions that are met or within the transition period."""
        return self._pressure.conditions

    @property
    def disks(self) -> Mapping[Signal, Path]:
        """A path on each disk with thresholds, by the signal of its space; unknown disks are omitted."""
        found = {Signal.NODEFS: self._context.root_dir}
        if self._layout is Layout.SINGLE:
            found[Signal.IMAGEFS] = self._context.root_dir
        elif self._image_disk is not None:
            found[Signal.IMAGEFS] = self._image_disk
        return found

    def wake(self) -> None:
        """Start a pass immediately."""
        self._waker.wake()

    def memory_threshold_crossed(self) -> None:
        """Check immediately whether a pod must be evicted because of memory pressure."""
        self._memory_crossed.set()

    async def run(self) -> None:
        """Run until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._run_memory_passes(), name="eviction/memory")
            group.create_task(self._run_passes(), name="eviction/rounds")

    async def _run_passes(self) -> None:
        while True:
            measure = await self._measure() if self.thresholds or self._isolation else None
            outdated = self._turn.locked()  # A pod is being evicted because of memory pressure.
            async with self._turn:
                evicted = await self._act(measure) if measure is not None and not outdated else []
                await self._until_cleaned_up(evicted)
            if not evicted and not outdated:
                await self._waker.wait(until_shared(self._clock.now(), ROUND_SECONDS, interval=RUNTIME_SECONDS))

    async def _run_memory_passes(self) -> None:
        while True:
            await self._memory_crossed.wait()
            self._memory_crossed.clear()
            if self._turn.locked():
                continue  # A pass is reclaiming; the watcher reports again if necessary.
            if self._layout is None:
                self.wake()
                continue
            async with self._turn:
                await self._until_cleaned_up(await self.synchronize_memory())

    async def synchronize(self) -> Sequence[str]:
        """Run one pass; return the UIDs of evicted pods."""
        measure = await self._measure()
        return [] if measure is None else await self._act(measure)

    async def synchronize_memory(self) -> Sequence[str]:
        """Read only the memory and act; return the UIDs of evicted pods."""
        now = int(self._clock.wall().timestamp() * 1e9)
        read = {
            signal: Observation(reading.available, reading.capacity, now)
            for signal, reading in self.read_memory().items()
        }
        measure = Measure({**self._seen, **read}, Layout.SINGLE)  # The order for memory does not depend on disks.
        ending = self._selector.ending(self._clock.now())
        due = [each for each in self._update(measure) if about_memory(each.signal)]
        return await self._relieve(due[0], due, measure) if due and (due[0].hard or not ending) else []

    async def _act(self, measure: Measure) -> Sequence[str]:
        ending = self._selector.ending(self._clock.now())
        due = self._update(measure)
        if self._isolation and (evicted := await self._evict_over_limits(measure)):
            return evicted
        if not due or (ending and not due[0].hard):
            return []  # An evicted pod within its grace period may suffice.
        return await self._relieve(due[0], due, measure)

    def _update(self, measure: Measure) -> list[Threshold]:
        """Update conditions from the measurements; return the thresholds to act on."""
        self._seen, before = measure.signals, self.conditions
        due = self._pressure.update(measure.signals, self._clock.now())
        if self.conditions != before:
            _log.info(
                "Eviction manager: node conditions changed",
                extra={"conditions": " ".join(sorted(self.conditions)) or "none"},
            )
            self._context.trigger_node_status()
        return due

    async def plan(self, request: PlanRequest) -> EvictionPlan:
        """Return the eviction plan for the current measurements.

        :raises ValueError: the request is invalid.
        :raises NodeAgentError: the node cannot be measured.
        """
        measure = await self._check()
        measure = replace(measure, usage=_by_uid(await self._context.stats.pods(fresh=True)))
        planner = Planner(
            self._context.node_name, self._selector, self._pressure, self._read, isolation=self._isolation
        )
        return await planner.plan(request, measure, self._clock.now())

    # --- measuring ------------------------------------------------------------------------------------------

    @property
    def _selector(self) -> CandidateSelector:
        if self._created_selector is None:
            self._created_selector = CandidateSelector(self._context.pods, self._plugins)
        return self._created_selector

    def _read(self, maps: ThresholdMaps) -> tuple[Threshold, ...]:
        config = self._context.config
        return read_thresholds(
            hard=maps.hard,
            soft=maps.soft,
            soft_grace=maps.soft_grace,
            minimum_reclaim=maps.minimum_reclaim,
            allocatable="pods" in config.enforce_node_allocatable and config.cgroups_per_qos,
        )

    async def _measure(self) -> Measure | None:
        try:
            measure = await self._check()
        except NodeAgentError as error:
            self._failed("node", error)
            return None
        self._recovered("node")
        return measure

    async def _with_usage(self, measure: Measure, signal: Signal | None = None) -> Measure:
        """Add the usage of pods to *measure*, for *signal* only or, without one, for all resources."""
        stats = self._context.stats
        try:
            memory_alone = signal is not None and about_memory(signal)
            found = await (stats.memory() if memory_alone else stats.pods(fresh=True))
        except NodeAgentError as error:
            self._failed("pods", error)
            return measure
        self._recovered("pods")
        return replace(measure, usage=_by_uid(found), usage_known=True)

    def _failed(self, scope: str, error: NodeAgentError) -> None:
        if scope not in self._failing:
            _log.error("Eviction manager: failed to get summary stats", extra={"scope": scope, "err": str(error)})
        self._failing.add(scope)

    def _recovered(self, scope: str) -> None:
        if scope in self._failing:
            _log.info("Eviction manager: summary stats recovered", extra={"scope": scope})
        self._failing.discard(scope)

    async def _check(self) -> Measure:
        node = await self._context.stats.node(fresh=True)
        if self._layout is None:
            self._layout = await detect_layout(self._context, node)
            self._image_disk = await image_disk(self._context)
            self._pressure = Pressure(with_computed(self.thresholds, self._layout), self._transition)
            _log.info("Eviction manager: detected file system layout", extra={"layout": self._layout.value})
        return Measure(observe(node), self._layout)

    async def _until_cleaned_up(self, uids: Sequence[str]) -> None:
        """Wait until the pods have terminated, so that the next measurement includes the released resources."""
        if not uids:
            return
        patience = KILLED_SECONDS if self._killed.issuperset(uids) else CLEANUP_SECONDS
        self._killed.clear()
        until = self._clock.now() + patience
        while self._clock.now() < until:
            await self._clock.sleep(CLEANUP_POLL_SECONDS)
            active = {pod.uid for pod in self._context.pods.active()}
            if active.isdisjoint(uids):
                return
        _log.info("Eviction manager: timed out waiting for pods to be cleaned up", extra={"podUIDs": ", ".join(uids)})

    # --- acting ---------------------------------------------------------------------------------------------

    async def _evict_over_limits(self, measure: Measure) -> list[str]:
        evicted: list[str] = []
        if not self._limited_pods.any(self._context.pods.active()) or not any(
            has_limit(candidate.pod) for candidate in self._selector.candidates(measure)
        ):
            return evicted
        for candidate in self._selector.candidates(await self._with_usage(measure)):
            if candidate.usage is None:
                continue
            excess = find_excess(candidate.pod, candidate.usage, measure.layout)
            if excess is None or await self._is_vetoed(candidate.pod, excess.signal):
                continue
            self._evict(candidate.pod, excess.signal, excess.message, None, 0)
            evicted.append(candidate.pod.uid)
        return evicted

    async def _relieve(self, threshold: Threshold, due: Sequence[Threshold], measure: Measure) -> list[str]:
        resource = resource_of(threshold.signal)
        vetoed, self._vetoed = self._vetoed, frozenset()
        level = logging.DEBUG if vetoed else logging.INFO  # A persistent veto is reported once.
        _log.log(
            level,
            "Eviction manager: attempting to reclaim",
            extra={"resourceName": resource, "threshold": str(threshold)},
        )
        if not vetoed:
            self._context.recorder.record(
                self._context.node_reference(),
                EventType.WARNING,
                "EvictionThresholdMet",
                f"Attempting to reclaim {resource}",
            )
        if about_disk(threshold.signal) and await self._reclaim_disk(threshold.signal, measure.layout):
            remeasured = await self._measure()
            if remeasured is None:
                return []
            if not any(is_met(each, remeasured.signals, with_reclaim=True) for each in due):
                _log.info(
                    "Eviction manager: able to reduce resource pressure without evicting pods.",
                    extra={"resourceName": resource},
                )
                return []
            measure = remeasured
        _log.log(level, "Eviction manager: must evict pod(s) to reclaim", extra={"resourceName": resource})
        await self._until_pods_are_known()
        for _ in range(_MEASUREMENTS):
            active = self._active()
            if about_disk(threshold.signal):
                await self._measure_volumes()
            measure = await self._with_usage(measure, threshold.signal)
            if not measure.usage_known:
                return []
            if self._active() == active:
                break
        ranked = await self._selector.ranked(threshold.signal, measure, hard=threshold.hard)
        names = [candidate.pod.full_name for candidate in ranked]
        _log.log(level, "Eviction manager: pods ranked for eviction", extra={"pods": names})
        for candidate in ranked:
            if not await self._is_vetoed(candidate.pod, threshold.signal):
                self._evict_for(threshold, candidate, measure)
                return [candidate.pod.uid]
        self._vetoed = frozenset(candidate.pod.uid for candidate in ranked)
        if self._vetoed != vetoed or not ranked:
            _log.info("Eviction manager: unable to evict any pods from the node", extra={"resourceName": resource})
        return []

    async def _until_pods_are_known(self) -> None:
        """After a start, wait until all pods are admitted or rejected: the first ones may not use the resource."""
        until = self._clock.now() + KNOWN_SECONDS
        while not self._pods_known and self._clock.now() < until:
            pods = self._context.pods
            self._pods_known = pods.all_sources_ready and not undecided_pods(pods)
            if not self._pods_known:
                await self._clock.sleep(KNOWN_POLL_SECONDS)
        self._pods_known = True

    def _active(self) -> frozenset[str]:
        return frozenset(pod.uid for pod in self._context.pods.active())

    async def _measure_volumes(self) -> None:
        """Measure volumes now, because the periodic measurement could lead to the wrong pod."""
        try:
            async with asyncio.timeout(VOLUMES_SECONDS):
                await self._context.stats.measure_volumes()
        except TimeoutError:
            _log.warning("Timed out measuring volumes before eviction", extra={"duration": VOLUMES_SECONDS})

    async def _reclaim_disk(self, signal: Signal, layout: Layout) -> bool:
        """Call plugins to reclaim disk space; return whether any did."""
        if layout is Layout.DEDICATED and signal in (Signal.NODEFS, Signal.NODEFS_INODES):
            return False  # Images and dead containers are on another disk.
        results = await self._plugins.gather("nodeagent_reclaim_disk", signal=str(signal))
        for result in results:
            summary = f"{result.value.bytes} bytes: {', '.join(result.value.items) or 'nothing'}"
            self._plugins.record_decision(result.plugin, "nodeagent_reclaim_disk", str(signal), summary)
        return bool(results)

    async def _is_vetoed(self, pod: Pod, signal: str) -> bool:
        """Return whether a plugin vetoes the eviction; the plugin manager reports each change."""
        return await self._selector.veto(pod, signal) is not None

    def _evict_for(self, threshold: Threshold, candidate: EvictionCandidate, measure: Measure) -> None:
        observed = measure.signals.get(threshold.signal)
        if observed is not None and observed.time:
            STATS_AGE.observe(max(0.0, self._clock.wall().timestamp() - observed.time / 1e9), threshold.signal)
        revised = self._context.release.release >= EVICTION_REVISED
        message, annotations = eviction_message(threshold, observed, candidate, init_containers=revised)
        grace = 0 if threshold.hard else self._soft_grace(candidate.pod)
        self._evict(candidate.pod, str(threshold.signal), message, annotations, grace)

    def _soft_grace(self, pod: Pod) -> int | None:
        """Return the grace period in seconds for a soft threshold; ``None`` for that of the pod.

        spec: config.evictionMaxPodGracePeriod
        """
        longest = self._context.config.eviction_max_pod_grace_period
        own = pod.spec.termination_grace_period_seconds
        if longest and own is not None and self._context.release.release >= EVICTION_REVISED:
            return min(longest, own)
        return longest or None

    def _evict(
        self, pod: Pod, signal: str, message: str, annotations: dict[str, str] | None, grace: int | None
    ) -> None:
        own = pod.spec.termination_grace_period_seconds
        given = grace if grace is not None else (_USUAL_GRACE_SECONDS if own is None else own)
        self._selector.mark_evicted(pod.uid, self._clock.now() + given + CLEANUP_SECONDS, immediate=given == 0)
        if given == 0:
            self._killed.add(pod.uid)
        _log.info(
            "Eviction manager: pod is evicted successfully",
            extra={"pod": pod.full_name, "podUID": pod.uid, "signal": signal, "note": message},
        )
        EVICTIONS.inc(signal)
        self._plugins.record_decision(PLUGIN, "evict", pod.full_name, f"{signal}: {message.strip()}")
        self._context.recorder.record(pod.reference(), EventType.WARNING, REASON, message, annotations=annotations)
        self._context.pods.kill(pod.uid, KillReason.EVICTED, message, status_reason=REASON, grace_seconds=grace)


def _by_uid(pods: Sequence[PodUsage]) -> dict[str, PodUsage]:
    return {pod.uid: pod for pod in pods}

"""The loop that looks at the node and acts when it is short of something."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from nodeagent.base.aio.waker import Waker
from nodeagent.contracts.context import AgentContext
from nodeagent.contracts.events import EventType
from nodeagent.contracts.eviction import EvictionCandidate, EvictionPlan, PlanRequest, ThresholdMaps
from nodeagent.contracts.pods import KillReason
from nodeagent.contracts.stats import PodUsage
from nodeagent.errors import NodeAgentError
from nodeagent.model.eviction_thresholds import Signal, Threshold, read_thresholds
from nodeagent.model.pod import Pod
from nodeagent_plugins.eviction.candidates import CandidateSelector, Measure
from nodeagent_plugins.eviction.layout import detect_layout, image_disk
from nodeagent_plugins.eviction.local_storage import find_excess, has_limit
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
"""How long pods that were given time to end hold up the next look."""
KILLED_SECONDS = 90.0
"""The same for pods that were killed: a node in need is slow at that, and the next pod would go for nothing."""
CLEANUP_POLL_SECONDS = 1.0
VOLUMES_SECONDS = 10.0
"""How long measuring every volume may hold up the choice of a pod."""
PLUGIN = "eviction"
_USUAL_GRACE_SECONDS = 30

_log = logging.getLogger(__name__)


class EvictionManager:
    """Looks each ten seconds, or when woken, and evicts at most one pod a round for what the node is short of.

    Pods over limits of their own go first, then images and dead containers, then pods. What pods use is measured only
    where it decides something. A shortage of memory does not wait for a round: it is decided from what the kernel
    tells, and the runtime, which answers slowly then, is not asked.
    spec: config.evictionHard, config.evictionSoft, config.evictionMaxPodGracePeriod
    """

    read_memory: Callable[[], Mapping[Signal, MemoryReading]]
    """Reads the memory that is watched; set by who watches it."""

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
        self._short_of_memory = asyncio.Event()
        self._turn = asyncio.Lock()
        self.read_memory = dict
        self._failing: set[str] = set()
        self._killed: set[str] = set()
        self._chooser_: CandidateSelector | None = None

    @property
    def conditions(self) -> frozenset[Condition]:
        """What the node is short of, or was until lately."""
        return self._pressure.conditions

    @property
    def disks(self) -> Mapping[Signal, Path]:
        """A place on each disk that thresholds are about, by the signal of its space, as far as it is known."""
        found = {Signal.NODEFS: self._context.root_dir}
        if self._layout is Layout.SINGLE:
            found[Signal.IMAGEFS] = self._context.root_dir
        elif self._image_disk is not None:
            found[Signal.IMAGEFS] = self._image_disk
        return found

    def wake(self) -> None:
        """Look now."""
        self._waker.wake()

    def memory_is_short(self) -> None:
        """Decide now whether a pod has to go for want of memory."""
        self._short_of_memory.set()

    async def run(self) -> None:
        """Look and act until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._memory_rounds(), name="eviction/memory")
            group.create_task(self._rounds(), name="eviction/rounds")

    async def _rounds(self) -> None:
        while True:
            measure = await self._measure() if self.thresholds or self._isolation else None
            outdated = self._turn.locked()  # a pod goes for want of memory meanwhile
            async with self._turn:
                gone = await self._act(measure) if measure is not None and not outdated else []
                await self._until_cleaned_up(gone)
            if not gone and not outdated:
                await self._waker.wait(ROUND_SECONDS)

    async def _memory_rounds(self) -> None:
        while True:
            await self._short_of_memory.wait()
            self._short_of_memory.clear()
            if self._turn.locked():
                continue  # something is being freed; what stays short is told again
            if self._layout is None:
                self.wake()
                continue
            async with self._turn:
                await self._until_cleaned_up(await self.memory_round())

    async def round(self) -> Sequence[str]:
        """Look once and act; return the UIDs of pods that were told to end."""
        measure = await self._measure()
        return [] if measure is None else await self._act(measure)

    async def memory_round(self) -> Sequence[str]:
        """Read the memory alone and act; return the UIDs of pods that were told to end."""
        now = int(self._clock.wall().timestamp() * 1e9)
        read = {
            signal: Observation(reading.available, reading.capacity, now)
            for signal, reading in self.read_memory().items()
        }
        measure = Measure({**self._seen, **read}, self._layout or Layout.SINGLE)
        ending = self._chooser.ending(self._clock.now())
        due = [each for each in self._update(measure) if about_memory(each.signal)]
        return await self._relieve(due[0], due, measure) if due and (due[0].hard or not ending) else []

    async def _act(self, measure: Measure) -> Sequence[str]:
        ending = self._chooser.ending(self._clock.now())
        due = self._update(measure)
        if self._isolation and (gone := await self._evict_over_limits(measure)):
            return gone
        if not due or (ending and not due[0].hard):
            return []  # a pod that was given time to end may be enough for a soft threshold
        return await self._relieve(due[0], due, measure)

    def _update(self, measure: Measure) -> list[Threshold]:
        """Take note of what was seen; return the thresholds to act on."""
        self._seen, before = measure.signals, self.conditions
        due = self._pressure.update(measure.signals, self._clock.now())
        if self.conditions != before:
            _log.info("Pressure changed", extra={"conditions": " ".join(sorted(self.conditions)) or "none"})
            self._context.trigger_node_status()
        return due

    async def plan(self, request: PlanRequest) -> EvictionPlan:
        """Return what would go now.

        :raises ValueError: the request cannot be read.
        :raises NodeAgentError: nothing can be measured now.
        """
        measure = await self._look()
        measure = replace(measure, usage=_by_uid(await self._context.stats.pods(fresh=True)))
        planner = Planner(self._context.node_name, self._chooser, self._pressure, self._read, isolation=self._isolation)
        return await planner.plan(request, measure, self._clock.now())

    # --- looking --------------------------------------------------------------------------------------------

    @property
    def _chooser(self) -> CandidateSelector:
        if self._chooser_ is None:
            self._chooser_ = CandidateSelector(self._context.pods, self._plugins)
        return self._chooser_

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
            measure = await self._look()
        except NodeAgentError as error:
            self._failed("the node", error)
            return None
        self._works("the node")
        return measure

    async def _with_usage(self, measure: Measure, signal: Signal | None = None) -> Measure:
        """Return *measure* with what pods use of what *signal* is about, of everything without one."""
        stats = self._context.stats
        try:
            memory_alone = signal is not None and about_memory(signal)
            found = await (stats.memory() if memory_alone else stats.pods(fresh=True))
        except NodeAgentError as error:
            self._failed("pods", error)
            return measure
        self._works("pods")
        return replace(measure, usage=_by_uid(found), usage_known=True)

    def _failed(self, what: str, error: NodeAgentError) -> None:
        if what not in self._failing:
            _log.error(f"Use of {what} not measured, nothing can be evicted", extra={"err": str(error)})
        self._failing.add(what)

    def _works(self, what: str) -> None:
        if what in self._failing:
            _log.info(f"Use of {what} is measured again")
        self._failing.discard(what)

    async def _look(self) -> Measure:
        node = await self._context.stats.node(fresh=True)
        if self._layout is None:
            self._layout = await detect_layout(self._context, node)
            self._image_disk = await image_disk(self._context)
            self._pressure = Pressure(with_computed(self.thresholds, self._layout), self._transition)
            _log.info("Layout of file systems found", extra={"layout": self._layout.value})
        return Measure(observe(node), self._layout)

    async def _until_cleaned_up(self, uids: Sequence[str]) -> None:
        """Wait until the pods have ended; what they held must be free before the next look."""
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
        _log.warning("Evicted pods have not ended yet", extra={"uids": ", ".join(uids)})

    # --- acting ---------------------------------------------------------------------------------------------

    async def _evict_over_limits(self, measure: Measure) -> list[str]:
        gone: list[str] = []
        if not any(has_limit(candidate.pod) for candidate in self._chooser.candidates(measure)):
            return gone
        for candidate in self._chooser.candidates(await self._with_usage(measure)):
            if candidate.usage is None:
                continue
            excess = find_excess(candidate.pod, candidate.usage, measure.layout)
            if excess is None or await self._is_spared(candidate.pod, excess.signal):
                continue
            self._evict(candidate.pod, excess.signal, excess.message, None, 0)
            gone.append(candidate.pod.uid)
        return gone

    async def _relieve(self, threshold: Threshold, due: Sequence[Threshold], measure: Measure) -> list[str]:
        resource = resource_of(threshold.signal)
        _log.info("Threshold is met", extra={"threshold": str(threshold), "resource": resource})
        self._context.recorder.record(
            self._context.node_reference(),
            EventType.WARNING,
            "EvictionThresholdMet",
            f"Attempting to reclaim {resource}",
        )
        if about_disk(threshold.signal) and await self._reclaim_disk(threshold.signal, measure.layout):
            again = await self._measure()
            if again is None:
                return []
            if not any(is_met(each, again.signals, with_reclaim=True) for each in due):
                _log.info("Freed without evicting pods", extra={"resource": resource})
                return []
            measure = again
        if about_disk(threshold.signal):
            await self._measure_volumes()
        measure = await self._with_usage(measure, threshold.signal)
        if not measure.usage_known:
            return []
        for candidate in await self._chooser.ranked(threshold.signal, measure, hard=threshold.hard):
            if not await self._is_spared(candidate.pod, threshold.signal):
                self._evict_for(threshold, candidate, measure)
                return [candidate.pod.uid]
        _log.warning("No pod can be evicted", extra={"resource": resource})
        return []

    async def _measure_volumes(self) -> None:
        """Have volumes measured as they are now: what is measured each minute would name the wrong pod."""
        try:
            async with asyncio.timeout(VOLUMES_SECONDS):
                await self._context.stats.measure_volumes()
        except TimeoutError:
            _log.warning("Not all volumes are measured before a pod is chosen", extra={"seconds": VOLUMES_SECONDS})

    async def _reclaim_disk(self, signal: Signal, layout: Layout) -> bool:
        """Have plugins free what they can; tell whether any tried."""
        if layout is Layout.DEDICATED and signal in (Signal.NODEFS, Signal.NODEFS_INODES):
            return False  # neither images nor dead containers are on that disk
        answers = await self._plugins.gather("nodeagent_reclaim_disk", signal=str(signal))
        for answer in answers:
            what = f"{answer.value.bytes} bytes: {', '.join(answer.value.items) or 'nothing'}"
            self._plugins.record_decision(answer.plugin, "nodeagent_reclaim_disk", str(signal), what)
        return bool(answers)

    async def _is_spared(self, pod: Pod, signal: str) -> bool:
        veto = await self._chooser.veto(pod, signal)
        if veto is not None:
            _log.info(
                "Pod is spared from eviction",
                extra={"pod": pod.full_name, "plugin": veto.plugin, "why": veto.value.message},
            )
        return veto is not None

    def _evict_for(self, threshold: Threshold, candidate: EvictionCandidate, measure: Measure) -> None:
        observed = measure.signals.get(threshold.signal)
        if observed is not None and observed.time:
            STATS_AGE.observe(max(0.0, self._clock.wall().timestamp() - observed.time / 1e9), threshold.signal)
        message, annotations = eviction_message(threshold, observed, candidate)
        longest = self._context.config.eviction_max_pod_grace_period
        grace = 0 if threshold.hard else (longest or None)
        self._evict(candidate.pod, str(threshold.signal), message, annotations, grace)

    def _evict(
        self, pod: Pod, signal: str, message: str, annotations: dict[str, str] | None, grace: int | None
    ) -> None:
        own = pod.spec.termination_grace_period_seconds
        given = grace if grace is not None else (_USUAL_GRACE_SECONDS if own is None else own)
        self._chooser.ends(pod.uid, self._clock.now() + given + CLEANUP_SECONDS, at_once=given == 0)
        if given == 0:
            self._killed.add(pod.uid)
        _log.info("Pod is evicted", extra={"pod": pod.full_name, "uid": pod.uid, "signal": signal, "text": message})
        EVICTIONS.inc(signal)
        self._plugins.record_decision(PLUGIN, "evict", pod.full_name, f"{signal}: {message.strip()}")
        self._context.recorder.record(pod.reference(), EventType.WARNING, REASON, message, annotations=annotations)
        self._context.pods.kill(pod.uid, KillReason.EVICTED, message, status_reason=REASON, grace_seconds=grace)


def _by_uid(pods: Sequence[PodUsage]) -> dict[str, PodUsage]:
    return {pod.uid: pod for pod in pods}

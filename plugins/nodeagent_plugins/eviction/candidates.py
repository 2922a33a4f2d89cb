"""Selection of the pods to evict: candidates, their order, and vetoes of plugins."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from msgspec import field

from nodeagent.base.structs import Struct
from nodeagent.contracts.eviction import EvictionCandidate
from nodeagent.contracts.pods import PodDirectory, Rejection
from nodeagent.contracts.stats import PodUsage
from nodeagent.model.eviction_thresholds import Signal
from nodeagent.model.pod import Pod, PodPhase
from nodeagent.model.qos import is_critical
from nodeagent_plugins.eviction.ranking import rank
from nodeagent_plugins.eviction.signals import Layout, Observation

if TYPE_CHECKING:
    from nodeagent.contracts.hooks import HookResult, PluginHost

_log = logging.getLogger(__name__)


class Measure(Struct, frozen=True):
    """Measurements of one pass."""

    signals: Mapping[Signal, Observation]
    layout: Layout
    usage: Mapping[str, PodUsage] = field(default_factory=dict)
    """Usage by pod UID."""
    usage_known: bool = False
    """True if the pods were measured as well."""


class CandidateSelector:
    """Selects and ranks candidates, and calls the eviction hooks of plugins.

    :param pods: the directory of pods.
    """

    def __init__(self, pods: PodDirectory, plugins: PluginHost) -> None:
        self._pods, self._plugins = pods, plugins
        self._ending: dict[str, float] = {}
        self._immediate: set[str] = set()

    def mark_evicted(self, uid: str, until: float, *, immediate: bool) -> None:
        """Record that a pod is being evicted and has until the monotonic time *until* to terminate.

        :param immediate: the pod has no grace period that a hard threshold could shorten.
        """
        self._ending[uid] = until
        if immediate:
            self._immediate.add(uid)

    def ending(self, now: float) -> bool:
        """Return whether an evicted pod is still within its grace period."""
        if not self._ending:
            return False
        active = {pod.uid for pod in self._pods.active()}
        self._ending = {uid: until for uid, until in self._ending.items() if uid in active}
        self._immediate &= active
        return any(until > now for until in self._ending.values())

    def candidates(self, measure: Measure, *, hard: bool = False) -> list[EvictionCandidate]:
        """Return the candidates, unordered; with *hard*, they include pods within a grace period."""
        return [
            EvictionCandidate(pod, measure.usage.get(pod.uid))
            for pod in self._pods.active()
            if not self._stays(pod, hard) and not self._finished(pod)
        ]

    def exempt(self, *, hard: bool = False) -> list[Pod]:
        """Return the active pods that are not candidates."""
        return [pod for pod in self._pods.active() if self._stays(pod, hard)]

    async def ranked(self, signal: Signal, measure: Measure, *, hard: bool = False) -> Sequence[EvictionCandidate]:
        """Return the candidates in eviction order, which plugins can change."""
        own = rank(signal, self.candidates(measure, hard=hard), measure.layout)
        changed = await self._plugins.call_chain(
            "nodeagent_rank_pods_for_eviction",
            "candidates",
            own,
            subject=f"order of pods for {signal}",
            tolerant=True,
            signal=str(signal),
        )
        if changed is own:
            return own
        known = {each.pod.uid: each for each in own}
        order = [known.pop(each.pod.uid) for each in changed if each.pod.uid in known]
        if known:
            _log.error(
                "Plugins omitted pods from the eviction order, appending them",
                extra={"pods": ", ".join(each.pod.full_name for each in known.values())},
            )
        return [*order, *known.values()]

    async def veto(self, pod: Pod, signal: str) -> HookResult[Rejection] | None:
        """Return the plugin and reason that veto the eviction of *pod*, or ``None``."""
        return await self._plugins.call_first(
            "nodeagent_permit_eviction", subject=pod.full_name, tolerant=True, pod=pod, signal=str(signal)
        )

    def _stays(self, pod: Pod, hard: bool) -> bool:
        return is_critical(pod) or pod.uid in (self._immediate if hard else self._ending)

    def _finished(self, pod: Pod) -> bool:
        status = self._pods.status(pod.uid)
        return status is not None and status.phase in (PodPhase.SUCCEEDED, PodPhase.FAILED)

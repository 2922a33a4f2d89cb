"""Which pods can go, in which order, and who keeps one."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

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


@dataclass(frozen=True, slots=True)
class Measure:
    """What one look at the node found."""

    signals: Mapping[Signal, Observation]
    layout: Layout
    usage: Mapping[str, PodUsage] = field(default_factory=dict)
    """By pod UID."""
    usage_known: bool = False
    """Whether pods were measured as well."""


class CandidateSelector:
    """Puts pods in order and asks plugins about it.

    :param pods: returns the directory of pods.
    """

    def __init__(self, pods: PodDirectory, plugins: PluginHost) -> None:
        self._pods, self._plugins = pods, plugins
        self._ending: dict[str, float] = {}
        self._at_once: set[str] = set()

    def ends(self, uid: str, until: float, *, at_once: bool) -> None:
        """Note that a pod was told to end, and will have at monotonic time *until*.

        :param at_once: it has no time left that a hard threshold could take from it.
        """
        self._ending[uid] = until
        if at_once:
            self._at_once.add(uid)

    def ending(self, now: float) -> bool:
        """Whether a pod that was told to end still has time to."""
        active = {pod.uid for pod in self._pods.active()}
        self._ending = {uid: until for uid, until in self._ending.items() if uid in active}
        self._at_once &= active
        return any(until > now for until in self._ending.values())

    def candidates(self, measure: Measure, *, hard: bool = False) -> list[EvictionCandidate]:
        """Return the pods that can go, in no order; *hard* is for those too that were given time to end."""
        return [
            EvictionCandidate(pod, measure.usage.get(pod.uid))
            for pod in self._pods.active()
            if not self._stays(pod, hard) and not self._finished(pod)
        ]

    def untouchable(self, *, hard: bool = False) -> list[Pod]:
        """Return the active pods that are no candidates."""
        return [pod for pod in self._pods.active() if self._stays(pod, hard)]

    async def ranked(self, signal: Signal, measure: Measure, *, hard: bool = False) -> Sequence[EvictionCandidate]:
        """Return the candidates in the order in which they would go, as plugins want it."""
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
                "Plugins left pods out of the order of eviction; these come last",
                extra={"pods": ", ".join(each.pod.full_name for each in known.values())},
            )
        return [*order, *known.values()]

    async def veto(self, pod: Pod, signal: str) -> HookResult[Rejection] | None:
        """Return who keeps *pod* and why, or ``None``."""
        return await self._plugins.call_first(
            "nodeagent_permit_eviction", subject=pod.full_name, tolerant=True, pod=pod, signal=str(signal)
        )

    def _stays(self, pod: Pod, hard: bool) -> bool:
        return is_critical(pod) or pod.uid in (self._at_once if hard else self._ending)

    def _finished(self, pod: Pod) -> bool:
        status = self._pods.status(pod.uid)
        return status is not None and status.phase in (PodPhase.SUCCEEDED, PodPhase.FAILED)

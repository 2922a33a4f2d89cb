"""Eviction: reclaim memory, disk, inodes and process IDs before the node runs out of them.

Reports node conditions; the control plane sets the corresponding taints, because a node must not change its own
taints.
spec: config.evictionHard, config.evictionSoft, config.evictionSoftGracePeriod, config.evictionMinimumReclaim,
config.evictionPressureTransitionPeriod, config.evictionMaxPodGracePeriod, config.kernelMemcgNotification,
config.localStorageCapacityIsolation
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING

from nodeagent import hookimpl
from nodeagent.base import identity
from nodeagent.contracts.background import BackgroundLoop
from nodeagent.contracts.context import AgentContext
from nodeagent.contracts.eviction import PLAN_QUERY, PlanRequest
from nodeagent.contracts.local import LocalQuery
from nodeagent.contracts.node import NodeConditionReport, NodeReport
from nodeagent.contracts.pods import Rejection
from nodeagent.model.eviction_thresholds import Signal
from nodeagent.model.pod import Pod
from nodeagent_plugins.eviction.admission import check_admission
from nodeagent_plugins.eviction.disk import DiskWatch
from nodeagent_plugins.eviction.manager import EvictionManager
from nodeagent_plugins.eviction.memory import CgroupMemory, MemorySource, MemoryWatch, NodeMemory, pods_cgroup
from nodeagent_plugins.eviction.signals import Condition

if TYPE_CHECKING:
    from nodeagent.contracts.hooks import PluginHost

_log = logging.getLogger(__name__)

_TEXTS = {
    Condition.MEMORY: ("HasInsufficientMemory", "has insufficient memory available"),
    Condition.DISK: ("HasDiskPressure", "has disk pressure"),
    Condition.PID: ("HasInsufficientPID", "has insufficient PID available"),
}


@hookimpl
def nodeagent_components_created(context: AgentContext, plugins: PluginHost) -> None:
    plugins.register(Eviction(context, plugins), name="eviction.manager")


class Eviction:
    """Hooks of the plugin, which share one manager."""

    def __init__(self, context: AgentContext, plugins: PluginHost) -> None:
        self._context = context
        self.manager = EvictionManager(context, plugins)

    @hookimpl
    def nodeagent_provide_background_loops(self, context: AgentContext) -> Sequence[BackgroundLoop]:
        loops: list[BackgroundLoop] = [_Loop("rounds", self.manager)]
        sources: dict[Signal, MemorySource] = {Signal.MEMORY: NodeMemory()}
        if any(each.signal is Signal.ALLOCATABLE_MEMORY for each in self.manager.thresholds):
            sources[Signal.ALLOCATABLE_MEMORY] = CgroupMemory(pods_cgroup(context.cgroups))
        kernel = context.config.kernel_memcg_notification
        short = self.manager.memory_threshold_crossed
        watch = MemoryWatch(self.manager.thresholds, sources, context.clock, short, kernel=kernel)
        self.manager.read_memory = watch.read
        if watch.needed:
            loops.append(_Loop("memory", watch))
        disk = DiskWatch(self.manager.thresholds, lambda: self.manager.disks, context.clock, self.manager.wake)
        if disk.needed:
            loops.append(_Loop("disk", disk))
        return loops

    @hookimpl
    def nodeagent_provide_local_queries(self) -> Sequence[LocalQuery]:
        return (LocalQuery(PLAN_QUERY, PlanRequest, self.manager.plan),)

    @hookimpl(tryfirst=True)
    async def nodeagent_admit_pod(self, pod: Pod) -> Rejection | None:
        observed = self._context.pods.observed(pod.uid)
        if observed is not None and observed.alive:
            return None  # The pod ran before the agent started; it is evicted if necessary.
        rejection = check_admission(pod, self.manager.conditions)
        if rejection is not None:
            fields = {"pod": pod.full_name, "podUID": pod.uid, "nodeCondition": sorted(self.manager.conditions)}
            _log.info("Failed to admit pod to node", extra=fields)
        return rejection

    @hookimpl
    async def nodeagent_report_node(self) -> NodeReport:
        name = identity.current().component
        return NodeReport(
            conditions=[
                NodeConditionReport(condition, True, f"{name.capitalize()}{reason}", f"{name} {message}")
                for condition, (reason, message) in _TEXTS.items()
                if condition in self.manager.conditions
            ]
        )


class _Loop:
    """Runs a part of the plugin as a named loop."""

    def __init__(self, name: str, part: EvictionManager | MemoryWatch | DiskWatch) -> None:
        self.name, self._part = name, part

    async def run(self) -> None:
        await self._part.run()

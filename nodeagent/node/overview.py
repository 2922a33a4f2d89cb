"""Node overview for ``nodeagent status``."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence

from nodeagent import __version__
from nodeagent.base.malloc import resident_bytes
from nodeagent.contracts.context import AgentContext
from nodeagent.contracts.diagnostics import (
    STATUS_QUERY,
    ConditionLine,
    DeviceResourceLine,
    GaugeLine,
    LoopLine,
    NodeOverview,
    PluginCostLine,
    PodLine,
    PullLine,
)
from nodeagent.contracts.images import ProgressReportingImagePuller
from nodeagent.contracts.local import LocalQuery, NoArguments
from nodeagent.contracts.stats import FilesystemStats, NodeUsage
from nodeagent.errors import NodeAgentError
from nodeagent.node.manager import NodeManager


class Overview:
    """Collects the state of the node on request.

    :param pods: returns a line for each pod.
    :param loops: returns a line for each loop of the agent.
    :param plugin_costs: returns the cost of loading each plugin.
    """

    def __init__(
        self,
        context: AgentContext,
        node: NodeManager,
        pods: Callable[[], Sequence[PodLine]],
        loops: Callable[[], Sequence[LoopLine]],
        plugin_costs: Callable[[], Sequence[PluginCostLine]],
    ) -> None:
        self._context, self._node, self._pods, self._loops = context, node, pods, loops
        self._plugin_costs = plugin_costs
        self._started_at = context.clock.wall()

    def local_queries(self) -> Sequence[LocalQuery]:
        """Return the local queries."""
        return (LocalQuery(STATUS_QUERY, NoArguments, self.overview),)

    async def overview(self, _: NoArguments) -> NodeOverview:
        """Return the current state of the node; gauges that cannot be measured are omitted."""
        context = self._context
        try:
            gauges = gauges_of(await context.stats.node(), os.cpu_count() or 1)
        except NodeAgentError:
            gauges = []
        now = context.clock.now()
        puller = context.puller
        status = self._node.status
        return NodeOverview(
            node=context.node_name,
            version=__version__,
            at=context.clock.wall(),
            started_at=self._started_at,
            ready=self._node.ready,
            runtime=self._node.runtime_version,
            api_server=self._node.report_problem,
            conditions=[
                ConditionLine(
                    type=condition.type,
                    status=condition.status,
                    reason=condition.reason,
                    message=condition.message,
                    since=condition.last_transition_time,
                )
                for condition in (status.conditions if status is not None else ())
            ],
            gauges=gauges,
            pods=list(self._pods()),
            pulls=[
                PullLine(
                    image=pull.image,
                    pods=list(pull.pods),
                    seconds=now - pull.since,
                    waits=pull.queued,
                    asks=pull.resolving_credentials,
                )
                for pull in (puller.pulls() if isinstance(puller, ProgressReportingImagePuller) else ())
            ],
            loops=list(self._loops()),
            devices=[
                DeviceResourceLine(
                    name=resource.name,
                    capacity=resource.capacity,
                    healthy=resource.healthy,
                    allocated=resource.allocated,
                    plugin=resource.plugin,
                    problem="" if resource.connected else resource.error or "no device plugin is registered",
                )
                for resource in context.devices.resources()
            ],
            release=str(context.release),
            memory_bytes=resident_bytes(),
            plugin_costs=list(self._plugin_costs()),
        )


def gauges_of(usage: NodeUsage, cpus: int) -> list[GaugeLine]:
    """Return the usage of resources that can trigger node pressure."""
    gauges = []
    if usage.cpu is not None and usage.cpu.usage_nanocores is not None:
        gauges.append(GaugeLine(name="cpu", used=usage.cpu.usage_nanocores, capacity=cpus * 10**9))
    memory = usage.memory
    if memory is not None and memory.available_bytes is not None and memory.working_set_bytes is not None:
        capacity = memory.working_set_bytes + memory.available_bytes
        gauges.append(GaugeLine(name="memory", used=memory.working_set_bytes, capacity=capacity))
    for name, disk in (("nodefs", usage.filesystem), ("imagefs", usage.image_filesystem)):
        gauges += _disk(name, disk)
    if usage.max_pids and usage.current_pids is not None:
        gauges.append(GaugeLine(name="pids", used=usage.current_pids, capacity=usage.max_pids))
    return gauges


def _disk(name: str, disk: FilesystemStats | None) -> list[GaugeLine]:
    if disk is None:
        return []
    gauges = []
    if disk.capacity_bytes and disk.available_bytes is not None:
        used = disk.capacity_bytes - disk.available_bytes
        gauges.append(GaugeLine(name=name, used=used, capacity=disk.capacity_bytes))
    if disk.inodes and disk.inodes_free is not None:
        gauges.append(GaugeLine(name=f"{name} inodes", used=disk.inodes - disk.inodes_free, capacity=disk.inodes))
    return gauges

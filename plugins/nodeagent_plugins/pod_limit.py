"""Pod limit: keep the node within its maximum (spec: config.maxPods, config.podsPerCore)."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

from nodeagent import hookimpl
from nodeagent.config.reservations import pod_capacity
from nodeagent.config.types import NodeAgentConfiguration
from nodeagent.contracts.pods import Rejection
from nodeagent.model.pod import Pod

if TYPE_CHECKING:
    from nodeagent.pluginmanager import PluginManager


@hookimpl
def nodeagent_configure(config: NodeAgentConfiguration, plugins: PluginManager) -> None:
    limit = pod_capacity(config, cores=os.cpu_count() or 1)
    plugins.register(PodLimit(limit), name="pod_limit.admission")


class PodLimit:
    """Refuses a pod once the node runs as many as it may."""

    def __init__(self, limit: int) -> None:
        self._limit = limit

    @hookimpl
    async def nodeagent_admit_pod(self, pod: Pod, active: Sequence[Pod]) -> Rejection | None:
        used = sum(1 for other in active if other.uid != pod.uid)
        if used < self._limit:
            return None
        return Rejection(
            "OutOfpods",
            f"Node didn't have enough resource: pods, requested: 1, used: {used}, capacity: {self._limit}",
        )

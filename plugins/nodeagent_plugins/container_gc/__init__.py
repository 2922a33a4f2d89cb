"""Container garbage collection: remove dead containers and sandboxes by number and age, and under disk pressure.

The sync of a running pod removes its surplus containers (plugin ``pod_sync``), and housekeeping those of orphaned pods.
This plugin handles terminated pods that are retained, the limit per node, and disk pressure.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from nodeagent import hookimpl
from nodeagent.contracts.background import BackgroundLoop
from nodeagent.contracts.context import AgentContext
from nodeagent.contracts.eviction import Reclaimed
from nodeagent_plugins.container_gc.collector import ContainerCollector

if TYPE_CHECKING:
    from nodeagent.contracts.hooks import PluginHost

NAME = "container_gc"
_DISKS = ("nodefs", "imagefs", "containerfs")
RECLAIM_SECONDS = 7.0
"""Time limit for reclaiming in the hook, whose timeout is 10 s."""


@hookimpl
def nodeagent_components_created(context: AgentContext, plugins: PluginHost) -> None:
    plugins.register(ContainerGc(context), name=f"{NAME}.node")


class ContainerGc:
    """Collects on this node every minute, and under disk pressure."""

    def __init__(self, context: AgentContext) -> None:
        self._collector = ContainerCollector(context)

    @hookimpl
    def nodeagent_provide_background_loops(self) -> Sequence[BackgroundLoop]:
        return [self._collector]

    @hookimpl(tryfirst=True)  # Afterwards images of dead containers can be removed.
    async def nodeagent_reclaim_disk(self, signal: str) -> Reclaimed | None:
        if signal.partition(".")[0] not in _DISKS:
            return None
        return await self._collector.reclaim(RECLAIM_SECONDS)

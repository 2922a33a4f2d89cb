"""Container collection: dead containers and sandboxes go by number and age, and under disk pressure.

A running pod's own surplus goes with its next sync already (plugin ``pod_sync``), leftovers of pods that nobody knows
any more with the agent's housekeeping; this covers what is left: pods that have ended and are kept to be looked at,
the limit on the whole node, and space that is needed now.
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
"""How long space is made before telling what was freed: a hook has 10 s."""


@hookimpl
def nodeagent_components_created(context: AgentContext, plugins: PluginHost) -> None:
    plugins.register(ContainerGc(context), name=f"{NAME}.node")


class ContainerGc:
    """Collects on this node: every minute, and when a disk is short of space."""

    def __init__(self, context: AgentContext) -> None:
        self._collector = ContainerCollector(context)

    @hookimpl
    def nodeagent_provide_background_loops(self) -> Sequence[BackgroundLoop]:
        return [self._collector]

    @hookimpl(tryfirst=True)  # an image that only dead containers use can go after them
    async def nodeagent_reclaim_disk(self, signal: str) -> Reclaimed | None:
        if signal.partition(".")[0] not in _DISKS:
            return None
        return await self._collector.reclaim(RECLAIM_SECONDS)

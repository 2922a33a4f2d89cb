"""Background loop of the volume manager, and its contribution to the node status."""

from __future__ import annotations

from nodeagent import hookimpl
from nodeagent.contracts.node import NodeReport
from nodeagent_plugins.volumes.manager import Manager


class VolumeLoop:
    """Finds the volumes of an earlier process at the start, and checks all volumes periodically."""

    name = "volumes"

    def __init__(self, manager: Manager) -> None:
        self._manager = manager

    async def run(self) -> None:
        """Run until cancelled."""
        await self._manager.run()


class VolumesInUse:
    """Reports the attachable volumes of this node, which the controller does not detach."""

    def __init__(self, manager: Manager) -> None:
        self._manager = manager

    @hookimpl
    async def nodeagent_report_node(self) -> NodeReport:
        return NodeReport(volumes_in_use=self._manager.volumes_in_use())

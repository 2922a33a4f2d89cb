"""CSI: volumes of drivers that register with a socket, on the node's side."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from nodeagent import hookimpl

if TYPE_CHECKING:
    from nodeagent.contracts.background import BackgroundLoop
    from nodeagent.contracts.context import CgroupsContext
    from nodeagent.contracts.hooks import PluginHost
    from nodeagent.contracts.node import NodeReport
    from nodeagent.contracts.persistent_volumes import PersistentVolumeKind
    from nodeagent.contracts.plugin_registry import PluginHandler
    from nodeagent_plugins.csi.node_objects import NodeObjects
    from nodeagent_plugins.csi.registration import LimitRefresh


@hookimpl
def nodeagent_configure(plugins: PluginHost) -> None:
    plugins.register(Csi(), name="csi.volumes")


class Csi:
    """Hooks of the plugin, which share the registered drivers."""

    def __init__(self) -> None:
        self._objects: NodeObjects | None = None
        self._limits: LimitRefresh | None = None

    @hookimpl
    def nodeagent_provide_persistent_volume_kinds(self, context: CgroupsContext) -> Sequence[PersistentVolumeKind]:
        from nodeagent_plugins.csi.driver_objects import DriverObjects
        from nodeagent_plugins.csi.drivers import Drivers
        from nodeagent_plugins.csi.kind import CsiVolumes
        from nodeagent_plugins.csi.node_objects import NodeObjects
        from nodeagent_plugins.csi.registration import LimitRefresh

        self._drivers, self._specs = Drivers(), DriverObjects(context.api, context.clock)
        self._objects = NodeObjects(context, context.api) if context.api is not None else None
        if self._objects is not None and context.gates.enabled("MutableCSINodeAllocatableCount"):
            self._limits = LimitRefresh(self._drivers, self._specs, self._objects, context.clock)
        return (CsiVolumes(context, self._drivers, self._specs, self._limits),)

    @hookimpl
    def nodeagent_provide_plugin_handlers(self) -> Sequence[PluginHandler]:
        from nodeagent_plugins.csi.registration import CsiRegistration

        return (CsiRegistration(self._drivers, self._objects),)

    @hookimpl
    def nodeagent_provide_background_loops(self) -> Sequence[BackgroundLoop]:
        if self._objects is None:
            return ()
        loops: list[BackgroundLoop] = [self._specs, self._objects]
        if self._limits is not None:
            loops.append(self._limits)
        return loops

    @hookimpl
    async def nodeagent_report_node(self) -> NodeReport | None:
        from nodeagent.contracts.node import NodeReport

        if self._objects is None or not self._objects.problem:
            return None
        return NodeReport(not_ready=[self._objects.problem])

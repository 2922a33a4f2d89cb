"""Resource claims: devices of dynamic resource allocation, which DRA drivers prepare for the pods of this node."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nodeagent import hookimpl

if TYPE_CHECKING:
    from nodeagent.contracts.background import BackgroundLoop
    from nodeagent.contracts.claims import ClaimDriver, ClaimManager
    from nodeagent.contracts.context import DevicesContext
    from nodeagent.contracts.hooks import PluginHost
    from nodeagent.contracts.plugin_registry import PluginHandler
    from nodeagent.contracts.pod_resources import ResourceReporter

NAME, GATE = "claims", "DynamicResourceAllocation"
SLICE_GRACE_SECONDS = 30
_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
_log = logging.getLogger(__name__)


@hookimpl
def nodeagent_settings_schema() -> dict[str, Any]:
    return {
        "type": "object",
        "additionalProperties": False,
        "properties": {
            "slice_grace_seconds": {
                "type": "integer",
                "minimum": 0,
                "default": SLICE_GRACE_SECONDS,
                "description": "Time without a connected driver after which its ResourceSlices are deleted.",
            },
        },
    }


@hookimpl
def nodeagent_configure(plugins: PluginHost) -> None:
    plugins.register(Claims(), name="claims.manager")


class Claims:
    """Hooks of the plugin, which share the registered drivers."""

    @hookimpl
    def nodeagent_provide_claim_manager(
        self, context: DevicesContext, drivers: Sequence[ClaimDriver]
    ) -> ClaimManager | None:
        if not context.gates.enabled(GATE):
            return None
        from nodeagent_plugins.claims.allocated_claims import ResourceApi
        from nodeagent_plugins.claims.checkpoint import Checkpoint
        from nodeagent_plugins.claims.drivers import Drivers, RegisteredDriver
        from nodeagent_plugins.claims.manager import Manager

        self._context, self._drivers = context, Drivers()
        for driver in drivers:
            self._drivers.add(RegisteredDriver(driver))
        self._api = ResourceApi(context.api) if context.api is not None else None
        checkpoint = Checkpoint(context.root_dir, read_boot_id())
        self._manager = Manager(context, self._api, self._drivers, checkpoint)
        self._manager.start()
        return self._manager

    @hookimpl
    def nodeagent_provide_plugin_handlers(self) -> Sequence[PluginHandler]:
        if not hasattr(self, "_manager"):
            return ()
        from nodeagent_plugins.claims.registration import DriverRegistration

        return (DriverRegistration(self._drivers),)

    @hookimpl
    def nodeagent_provide_resource_reporters(self) -> Sequence[ResourceReporter]:
        if not hasattr(self, "_manager"):
            return ()
        from nodeagent_plugins.claims.reporter import ClaimReporter

        return (ClaimReporter(self._manager),)

    @hookimpl
    def nodeagent_provide_background_loops(self) -> Sequence[BackgroundLoop]:
        if not hasattr(self, "_manager"):
            return ()
        from nodeagent_plugins.claims.connections import DriverConnections
        from nodeagent_plugins.claims.slices import SliceCleaner

        context, manager = self._context, self._manager
        has_health = context.gates.enabled("ResourceHealthStatus")
        connections = DriverConnections(
            self._drivers, manager.health_cache, context.clock, manager.health_changed, has_health=has_health
        )
        loops: list[BackgroundLoop] = [manager, connections]
        if self._api is not None:
            grace = context.plugin_settings.get(NAME, {}).get("slice_grace_seconds", SLICE_GRACE_SECONDS)
            loops.append(SliceCleaner(self._api, self._drivers, context.node_name, context.clock, grace))
        return loops


def read_boot_id() -> str:
    """Return the ID of the host's boot; empty if it is unknown, then all claims are prepared again."""
    try:
        return _BOOT_ID.read_text().strip()
    except OSError as error:
        _log.warning("Failed to read boot ID", extra={"err": str(error)})
        return ""

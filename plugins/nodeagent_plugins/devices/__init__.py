"""Device manager: devices that containers request as extended resources, from device plugins and Python plugins."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nodeagent import hookimpl

if TYPE_CHECKING:
    from nodeagent.contracts.context import AgentContext, VolumesContext
    from nodeagent.contracts.devices import DeviceManager, DeviceProvider
    from nodeagent.contracts.hooks import PluginHost
    from nodeagent.contracts.local import LocalQuery
    from nodeagent.contracts.pod_resources import ResourceReporter
    from nodeagent.contracts.topology import HintProvider

NAME = "devices"
DIRECTORY = "device-plugins"
WAIT_SECONDS = 300


@hookimpl
def nodeagent_settings_schema() -> dict[str, Any]:
    return {
        "type": "object",
        "additionalProperties": False,
        "properties": {
            "directory": {
                "type": "string",
                "minLength": 1,
                "description": f"Directory of the checkpoint; defaults to {DIRECTORY} in the root directory.",
            },
            "expected_resources": {
                "type": "array",
                "items": {"type": "string", "minLength": 3},
                "description": "Resources for which pods wait before their device plugin has ever registered.",
            },
            "wait_seconds": {
                "type": "integer",
                "minimum": 0,
                "default": WAIT_SECONDS,
                "description": "Time that a pod waits for a device plugin before it is rejected.",
            },
        },
    }


@hookimpl
def nodeagent_provide_device_manager(context: VolumesContext, providers: Sequence[DeviceProvider]) -> DeviceManager:
    from nodeagent_plugins.devices.manager import Devices

    settings = context.plugin_settings.get(NAME, {})
    return Devices(
        context,
        providers,
        Path(settings.get("directory", context.root_dir / DIRECTORY)),
        expected=settings.get("expected_resources", ()),
        wait_seconds=settings.get("wait_seconds", WAIT_SECONDS),
        topology_policy=context.config.topology_manager_policy,
    )


@hookimpl
def nodeagent_provide_hint_providers(context: AgentContext) -> Sequence[HintProvider]:
    from nodeagent_plugins.devices.hints import DeviceHints
    from nodeagent_plugins.devices.manager import Devices

    devices = context.devices
    return (DeviceHints(devices),) if isinstance(devices, Devices) and devices.aligned else ()


@hookimpl
def nodeagent_provide_resource_reporters(context: AgentContext) -> Sequence[ResourceReporter]:
    from nodeagent_plugins.devices.manager import Devices
    from nodeagent_plugins.devices.reporter import DeviceReporter

    return (DeviceReporter(context.devices.reservations),) if isinstance(context.devices, Devices) else ()


@hookimpl
def nodeagent_components_created(context: AgentContext, plugins: PluginHost) -> None:
    from nodeagent_plugins.devices.manager import Devices

    if isinstance(context.devices, Devices):
        from nodeagent_plugins.devices.report import expose

        plugins.register(context.devices, name="devices.node")
        expose(context.devices.reservations, context.clock.now)


@hookimpl
def nodeagent_provide_local_queries(context: AgentContext) -> Sequence[LocalQuery]:
    from nodeagent.contracts.device_report import DEVICES_QUERY, DevicesRequest
    from nodeagent.contracts.local import LocalQuery
    from nodeagent_plugins.devices.manager import Devices
    from nodeagent_plugins.devices.report import Report

    if not isinstance(context.devices, Devices):  # Another plugin provides the device manager.
        return ()
    return (LocalQuery(DEVICES_QUERY, DevicesRequest, Report(context, context.devices).report),)

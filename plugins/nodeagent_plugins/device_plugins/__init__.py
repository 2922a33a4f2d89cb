"""Device plugins: gRPC processes that register the devices of a resource with the agent."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nodeagent import hookimpl

if TYPE_CHECKING:
    from nodeagent.contracts.background import BackgroundLoop
    from nodeagent.contracts.context import AgentContext
    from nodeagent.contracts.hooks import PluginHost
    from nodeagent.contracts.plugin_registry import PluginHandler
    from nodeagent_plugins.device_plugins.endpoints import Endpoints

NAME = "device_plugins"
DIRECTORY = "device-plugins"


@hookimpl
def nodeagent_settings_schema() -> dict[str, Any]:
    return {
        "type": "object",
        "additionalProperties": False,
        "properties": {
            "directory": {
                "type": "string",
                "minLength": 1,
                "description": (
                    f"Directory of the sockets of device plugins; defaults to {DIRECTORY} in the root directory. "
                    f"Most device plugins expect /var/lib/kubelet/{DIRECTORY}."
                ),
            },
        },
    }


@hookimpl
def nodeagent_configure(plugins: PluginHost) -> None:
    plugins.register(DevicePlugins(), name="device_plugins.registration")


class DevicePlugins:
    """Hooks of the plugin, which share the connected endpoints."""

    def __init__(self) -> None:
        self._endpoints: Endpoints | None = None

    @hookimpl
    def nodeagent_components_created(self, context: AgentContext) -> None:
        from nodeagent_plugins.device_plugins.endpoints import Endpoints

        self._endpoints = Endpoints(context.devices, cdi=context.gates.enabled("DevicePluginCDIDevices"))

    @hookimpl
    def nodeagent_provide_background_loops(self, context: AgentContext) -> Sequence[BackgroundLoop]:
        from nodeagent_plugins.device_plugins.registration import RegistrationServer

        assert self._endpoints is not None, "the components were created"
        directory = context.plugin_settings.get(NAME, {}).get("directory", context.root_dir / DIRECTORY)
        return (RegistrationServer(Path(directory), self._endpoints, context.clock),)

    @hookimpl
    def nodeagent_provide_plugin_handlers(self) -> Sequence[PluginHandler]:
        from nodeagent_plugins.device_plugins.handler import DevicePluginHandler

        assert self._endpoints is not None, "the components were created"
        return (DevicePluginHandler(self._endpoints),)

"""Handler of device plugins that register with a socket in the plugin registry."""

from __future__ import annotations

from nodeagent.contracts.plugin_registry import RegisteredPlugin
from nodeagent.errors import DeviceError, PluginRegistrationError
from nodeagent.model.extended_resources import is_extended_resource
from nodeagent_plugins.device_plugins.endpoints import VERSION, Endpoints


class DevicePluginHandler:
    """:class:`~nodeagent.contracts.plugin_registry.PluginHandler` of device plugins."""

    plugin_type = "DevicePlugin"

    def __init__(self, endpoints: Endpoints) -> None:
        self._endpoints = endpoints

    async def validate(self, plugin: RegisteredPlugin) -> None:
        if VERSION not in plugin.versions:
            versions = " ".join(version[:63] for version in plugin.versions)
            raise PluginRegistrationError(
                f"manager version, {VERSION}, is not among plugin supported versions [{versions}]"
            )
        if not is_extended_resource(plugin.name):
            raise PluginRegistrationError(
                f'invalid name of device plugin socket: the ResourceName "{plugin.name}" is invalid'
            )

    async def register(self, plugin: RegisteredPlugin) -> None:
        try:
            await self._endpoints.connect(plugin.name, plugin.endpoint)
        except DeviceError as error:
            raise PluginRegistrationError(str(error)) from error

    async def deregister(self, plugin: RegisteredPlugin) -> None:
        self._endpoints.disconnect(plugin.name, plugin.endpoint)

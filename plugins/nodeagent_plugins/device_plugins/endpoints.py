"""Connected device plugins: check a registration, connect to the plugin, and add it to the device manager."""

from __future__ import annotations

from nodeagent.base.structs import Struct
from nodeagent.contracts.devices import DeviceManager, DeviceRegistration
from nodeagent_plugins.device_plugins.client import DIAL_SECONDS, DevicePlugin

VERSION = "v1beta1"


class _Connected(Struct, frozen=True):
    plugin: DevicePlugin
    registration: DeviceRegistration


class Endpoints:
    """Device plugins by resource.

    :param cdi: accept CDI devices in responses.
    :param dial_seconds: time in which a plugin that registers must serve.
    """

    def __init__(self, devices: DeviceManager, *, cdi: bool, dial_seconds: float = DIAL_SECONDS) -> None:
        self._devices, self._cdi, self._dial_seconds = devices, cdi, dial_seconds
        self._connected: dict[str, _Connected] = {}

    async def connect(self, resource: str, socket: str) -> None:
        """Connect to a plugin and use its devices; it replaces an earlier plugin of the resource.

        :raises DeviceError: the plugin cannot be reached, or the name is invalid.
        """
        plugin = DevicePlugin(resource, socket, cdi=self._cdi)
        await plugin.read_options(self._dial_seconds)
        # The earlier plugin is closed by its identity, not by its name, which the new one has as well.
        self._connected[resource] = _Connected(plugin, self._devices.add(plugin))

    def disconnect(self, resource: str, socket: str) -> None:
        """Stop to use the plugin of *resource* that listens on *socket*; others are not affected."""
        connected = self._connected.get(resource)
        if connected is not None and connected.plugin.endpoint == socket:
            del self._connected[resource]
            connected.registration.close()

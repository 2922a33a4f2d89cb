"""Contracts for gRPC plugins of nodes (CSI drivers, device plugins, DRA drivers) that register with sockets.

They register in the directory ``plugins_registry`` below the root directory; one watcher serves all types.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from nodeagent.base.structs import Struct


class RegisteredPlugin(Struct, frozen=True):
    """A plugin as described by its registration socket."""

    type: str
    """``CSIPlugin``, ``DevicePlugin`` or ``DRAPlugin``."""
    name: str
    endpoint: str
    """Path of the plugin's socket."""
    versions: Sequence[str]
    """Supported versions of the plugin's API."""
    socket: str
    """Path of the registration socket."""


class PluginHandler(Protocol):
    """Handles the plugins of one type."""

    plugin_type: str

    async def validate(self, plugin: RegisteredPlugin) -> None:
        """Check name, endpoint and versions before the registration.

        :param plugin: the plugin.
        :raises PluginRegistrationError: the plugin is rejected; it is notified of the message.
        """
        ...

    async def register(self, plugin: RegisteredPlugin) -> None:
        """Start to use the plugin.

        :param plugin: a validated plugin.
        :raises PluginRegistrationError: the plugin cannot be used; it is notified of the message and retried.
        """
        ...

    async def deregister(self, plugin: RegisteredPlugin) -> None:
        """Stop to use the plugin, because its socket was removed or replaced; idempotent.

        :param plugin: the plugin as registered.
        :raises PluginRegistrationError: the plugin is still in use; called again with a back-off.
        """
        ...

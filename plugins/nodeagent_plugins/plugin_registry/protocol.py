"""Registration protocol: the plugin serves, the agent calls."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from nodeagent.base.plugin_rpc import Connection, RpcError, connect, methods_of
from nodeagent.base.pluginproto import registration_pb2
from nodeagent.contracts.plugin_registry import RegisteredPlugin
from nodeagent.errors import PluginRegistrationError

DIAL_SECONDS, INFO_SECONDS, NOTIFY_SECONDS = 10.0, 1.0, 5.0
_SESSION_SECONDS = 600.0
"""Longer than any handler takes between the first and the last call."""
_MAX_VERSIONS = 100
_METHODS = methods_of(registration_pb2.DESCRIPTOR.services_by_name["Registration"])


class Session:
    """Connection to a registration socket."""

    def __init__(self, connection: Connection, socket: str) -> None:
        self._connection, self._socket = connection, socket

    async def plugin(self) -> RegisteredPlugin:
        """Return the description of the plugin.

        :raises PluginRegistrationError: the plugin does not respond in time, or its description is invalid.
        """
        try:
            info = await self._connection.call(_METHODS["GetInfo"], registration_pb2.InfoRequest(), INFO_SECONDS)
        except RpcError as error:
            raise PluginRegistrationError(
                f"RegisterPlugin error -- failed to get plugin info using RPC GetInfo at socket {self._socket}, "
                f"err: {error}"
            ) from error
        return RegisteredPlugin(
            info.type, info.name, info.endpoint or self._socket, tuple(info.supported_versions), self._socket
        )

    async def notify(self, *, registered: bool, error: str = "") -> None:
        """Notify the plugin of the result.

        :raises PluginRegistrationError: the plugin does not respond in time.
        """
        status = registration_pb2.RegistrationStatus(plugin_registered=registered, error=error)
        try:
            await self._connection.call(_METHODS["NotifyRegistrationStatus"], status, NOTIFY_SECONDS)
        except RpcError as failure:
            raise PluginRegistrationError(
                f"RegisterPlugin error -- failed to send registration status at socket {self._socket}, err: {failure}"
            ) from failure


@asynccontextmanager
async def open_session(socket: str) -> AsyncIterator[Session]:
    """Provide a session with the plugin that listens on *socket*.

    :raises PluginRegistrationError: the connection fails.
    """
    try:
        async with connect(socket, _SESSION_SECONDS) as connection:
            await connection.wait_ready(DIAL_SECONDS)
            yield Session(connection, socket)
    except RpcError as error:
        raise PluginRegistrationError(
            f"RegisterPlugin error -- dial failed at socket {socket}, err: {error}"
        ) from error


def check_description(plugin: RegisteredPlugin) -> None:
    """Check the fields of a description that apply to all types.

    :raises PluginRegistrationError: a field is invalid.
    """
    if not plugin.name or len(plugin.name) > 253 or "\0" in plugin.name:
        raise PluginRegistrationError(f"invalid plugin name {plugin.name[:253]!r}: must have 1 to 253 characters")
    endpoint = plugin.endpoint
    if not endpoint.startswith("/") or "\0" in endpoint or os.path.normpath(endpoint) != endpoint:
        raise PluginRegistrationError(f"invalid endpoint {endpoint[:253]!r}: must be an absolute path without ..")
    if len(plugin.versions) > _MAX_VERSIONS:
        raise PluginRegistrationError(f"plugin lists more than {_MAX_VERSIONS} supported versions")


def check_endpoint(plugin: RegisteredPlugin) -> None:
    """Check that the endpoint is not a symbolic link, which could lead to the socket of another process. Blocking.

    :raises PluginRegistrationError: it is one.
    """
    if Path(plugin.endpoint).is_symlink():
        raise PluginRegistrationError(f"invalid endpoint {plugin.endpoint!r}: must not be a symbolic link")

"""Handler of DRA drivers that register with a socket."""

from __future__ import annotations

from collections.abc import Sequence

from nodeagent.base.names import subdomain_problems
from nodeagent.contracts.plugin_registry import RegisteredPlugin
from nodeagent.errors import PluginRegistrationError
from nodeagent_plugins.claims.drivers import Drivers, RegisteredDriver
from nodeagent_plugins.claims.grpc_driver import HEALTH, V1, V1BETA1, GrpcDriver

_SERVICES = (V1, V1BETA1)
_SUPPORTED = (V1, V1BETA1, HEALTH)
_NAME_LIMIT = 63


class DriverRegistration:
    """:class:`~nodeagent.contracts.plugin_registry.PluginHandler` of DRA drivers.

    A driver may be registered with several endpoints, so that a new version can replace an old one without a gap.
    """

    plugin_type = "DRAPlugin"

    def __init__(self, drivers: Drivers) -> None:
        self._drivers = drivers

    async def validate(self, plugin: RegisteredPlugin) -> None:
        if len(plugin.name) > _NAME_LIMIT or subdomain_problems(plugin.name.lower()):
            raise PluginRegistrationError(f"invalid name of DRA driver plugin: {plugin.name[:253]!r}")
        service_of(plugin)

    async def register(self, plugin: RegisteredPlugin) -> None:
        if self._drivers.find(plugin.name, plugin.endpoint) is not None:
            raise PluginRegistrationError(
                f"endpoint {plugin.endpoint} already registered for DRA driver plugin {plugin.name}"
            )
        driver = GrpcDriver(plugin.name, plugin.endpoint, service_of(plugin))
        self._drivers.add(RegisteredDriver(driver, has_health=HEALTH in plugin.versions))

    async def deregister(self, plugin: RegisteredPlugin) -> None:
        self._drivers.remove(plugin.name, plugin.endpoint)


def service_of(plugin: RegisteredPlugin) -> str:
    """Return the first service in the driver's order that this client implements.

    :raises PluginRegistrationError: there is none.
    """
    found = next((version for version in plugin.versions if version in _SERVICES), None)
    if found is not None:
        return found
    reason = "empty list of supported gRPC services (aka supported versions)"
    if plugin.versions:
        reason = (
            f"none of services supported by the plugin ({_go_list(plugin.versions)}) are supported by the kubelet "
            f"({_go_list(_SUPPORTED)})"
        )
    raise PluginRegistrationError(
        f"invalid supported gRPC versions of DRA driver plugin {plugin.name} at endpoint {plugin.endpoint}: {reason}"
    )


def _go_list(texts: Sequence[str]) -> str:
    """Return *texts* in the format of Go."""
    return "[" + " ".join(f'"{text[:63]}"' for text in texts) + "]"

"""Registry of the served kinds."""

from __future__ import annotations

from apiserver_stub.kinds import Registry, api_services, bundled_resources
from apiserver_stub.kinds.runtime_config import enabled
from apiserver_stub.kinds.settings import KindSettings
from apiserver_stub.options import Options


def kind_settings(options: Options) -> KindSettings:
    """Return the settings of the kinds."""
    return KindSettings(
        gates=options.gates,
        allow_privileged=options.allow_privileged,
        service_networks=options.service_networks,
        service_node_ports=options.service_node_port_range,
    )


def build_registry(options: Options) -> Registry:
    """Return the resources that ``--runtime-config`` enables, in the order of their group versions."""
    every = bundled_resources(kind_settings(options))
    served = [item for item in every if enabled(options.runtime_config, item.group, item.version, item.plural)]
    return Registry(sorted(served, key=lambda item: api_services.order(item.group, item.version)))

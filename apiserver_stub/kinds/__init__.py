"""The kinds that are served: a module a family, each a list of declarations."""

from __future__ import annotations

from typing import TYPE_CHECKING

from apiserver_stub.kinds.registry import Registry, Resource
from apiserver_stub.kinds.runtime_config import enabled

if TYPE_CHECKING:
    from apiserver_stub.options import Options


def build_registry(options: Options) -> Registry:
    """Return every resource of this server that is switched on."""
    from apiserver_stub.kinds import (
        admission,
        api_services,
        certificates,
        config,
        coordination,
        disruption,
        endpoint_slices,
        events,
        limits,
        namespaces,
        networking,
        nodes,
        pods,
        rbac,
        reviews,
        scheduling,
        service_accounts,
        services,
        storage,
        trust_bundles,
        volumes,
    )

    families = (
        namespaces,
        nodes,
        pods,
        config,
        service_accounts,
        services,
        endpoint_slices,
        events,
        coordination,
        scheduling,
        storage,
        volumes,
        limits,
        networking,
        admission,
        certificates,
        trust_bundles,
        rbac,
        reviews,
        disruption,
        api_services,
    )
    every = (resource for family in families for resource in family.resources(options))
    settings = options.runtime_config
    served = [item for item in every if enabled(settings, item.group, item.version, item.plural)]
    return Registry(sorted(served, key=lambda item: api_services.order(item.group, item.version)))


__all__ = ["Registry", "Resource", "build_registry"]

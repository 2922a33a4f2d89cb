"""Kinds: declarations of their resources and their strategies, one module per family."""

from __future__ import annotations

from typing import TYPE_CHECKING

from apiserver_stub.kinds.registry import Registry, Resource

if TYPE_CHECKING:
    from apiserver_stub.kinds.settings import KindSettings


def bundled_resources(settings: KindSettings) -> list[Resource]:
    """Return the resources of the bundled kinds."""
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
    return [resource for family in families for resource in family.resources(settings)]


__all__ = ["Registry", "Resource", "bundled_resources"]

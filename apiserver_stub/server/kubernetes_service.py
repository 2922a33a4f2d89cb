"""Service ``kubernetes``, by which pods reach the server."""

from __future__ import annotations

from apiserver_stub.controllers.kubernetes_service import KubernetesService, KubernetesServiceSettings
from apiserver_stub.kinds import Registry
from apiserver_stub.lifecycle import Lifecycle
from apiserver_stub.options import Options
from apiserver_stub.storage import Store
from nodeagent.base.aio import TaskOwner


async def start_kubernetes_service(
    options: Options, store: Store, registry: Registry, lifecycle: Lifecycle, address: str, tasks: TaskOwner
) -> KubernetesService:
    """Create or update the Service with *address* (``host:port``) as an endpoint, and maintain it."""
    settings = KubernetesServiceSettings(
        options.service_networks, options.platform_service_node_port, options.endpoint_reconciler_type
    )
    service = KubernetesService(store, registry, lifecycle, lambda: address, settings, options.identity)
    await service.reconcile()
    tasks.start(service.run(), "kubernetes-service")
    return service

"""Server of the pod-resources API, versions v1 and v1alpha1, with one rate limit for all methods."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

from nodeagent.base.aio import Clock, TokenBucket
from nodeagent.base.gates import FeatureGates
from nodeagent.base.metrics import Counter
from nodeagent.base.pluginproto import podresources_pb2 as v1
from nodeagent.base.pluginproto import podresources_v1alpha1_pb2 as v1alpha1
from nodeagent.base.rpc_server import CallRejected, Handler, serve_until_cancelled
from nodeagent_plugins.pod_resources.inventory import Inventory
from nodeagent_plugins.pod_resources.messages import allocatable_message, alpha_pod_message, pod_message

QPS, BURST = 100.0, 10
_LABELS = ("server_api_version",)
_KINDS = {"List": "list", "GetAllocatableResources": "get_allocatable", "Get": "get"}

REQUESTS = Counter(
    "pod_resources_endpoint_requests_total",
    "Cumulative number of requests to the PodResource endpoint. Broken down by server api version.",
    _LABELS,
)
REQUESTS_BY_METHOD = {
    "List": Counter(
        "pod_resources_endpoint_requests_list",
        "Number of requests to the PodResource List endpoint. Broken down by server api version.",
        _LABELS,
    ),
    "GetAllocatableResources": Counter(
        "pod_resources_endpoint_requests_get_allocatable",
        "Number of requests to the PodResource GetAllocatableResources endpoint. Broken down by server api version.",
        _LABELS,
    ),
    "Get": Counter(
        "pod_resources_endpoint_requests_get",
        "Number of requests to the PodResource Get endpoint. Broken down by server api version.",
        _LABELS,
    ),
}
ERRORS = {
    method: Counter(
        f"pod_resources_endpoint_errors_{kind}",
        f"Number of requests to the PodResource {method} endpoint which returned error. "
        "Broken down by server api version.",
        _LABELS,
    )
    for method, kind in _KINDS.items()
}


class PodResourcesServer:
    """Serves the resources of pods; no call waits for a pod, a plugin or the runtime.

    :param socket: path of the socket; its directory is created.
    """

    name = "pod resources"

    def __init__(self, socket: Path, inventory: Inventory, gates: FeatureGates, clock: Clock) -> None:
        self._socket, self._inventory, self._clock = socket, inventory, clock
        self._get_enabled = gates.enabled("NodeAgentPodResourcesGet")
        self._claims = gates.enabled("NodeAgentPodResourcesDynamicResources")
        self._bucket = TokenBucket(QPS, BURST, clock)

    async def run(self) -> None:
        """Serve until cancelled; serve again if the socket is removed.

        :raises OSError: the socket cannot be created.
        """
        await asyncio.to_thread(self._socket.parent.mkdir, mode=0o750, parents=True, exist_ok=True)
        beta = {"List": self._list, "GetAllocatableResources": self._get_allocatable, "Get": self._get}
        services = {
            v1.DESCRIPTOR.services_by_name["PodResourcesLister"]: {
                name: self._counted("v1", name, handler) for name, handler in beta.items()
            },
            v1alpha1.DESCRIPTOR.services_by_name["PodResourcesLister"]: {
                "List": self._counted("v1alpha1", "List", self._list_alpha)
            },
        }
        await serve_until_cancelled(self._socket, services, self._clock)

    def _counted(self, version: str, method: str, handler: Callable[[Any], Any]) -> Handler:
        async def handle(request: Any) -> Any:
            if not self._bucket.try_take():
                raise CallRejected("rejected by rate limit", "RESOURCE_EXHAUSTED")
            REQUESTS.inc(version)
            REQUESTS_BY_METHOD[method].inc(version)
            try:
                return handler(request)
            except CallRejected:
                ERRORS[method].inc(version)
                raise

        return handle

    def _list(self, _request: Any) -> Any:
        return v1.ListPodResourcesResponse(pod_resources=[self._pod(pod) for pod in self._inventory.listed()])

    def _list_alpha(self, _request: Any) -> Any:
        pods = self._inventory.all()
        messages = [alpha_pod_message(pod, self._inventory.containers(pod)) for pod in pods]
        return v1alpha1.ListPodResourcesResponse(pod_resources=messages)

    def _get_allocatable(self, _request: Any) -> Any:
        return allocatable_message(self._inventory.allocatable())

    def _get(self, request: Any) -> Any:
        if not self._get_enabled:
            raise CallRejected("PodResources API Get method disabled")
        name, namespace = request.pod_name, request.pod_namespace
        pod = self._inventory.find(namespace, name)
        if pod is None:
            raise CallRejected(f"pod {name[:253]} in namespace {namespace[:253]} not found")
        return v1.GetPodResourcesResponse(pod_resources=self._pod(pod))

    def _pod(self, pod: Any) -> Any:
        return pod_message(pod, self._inventory.containers(pod), claims=self._claims)

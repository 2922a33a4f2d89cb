"""Pods of the agent: ``/pods`` lists the desired pods with their status, ``/runningpods/`` those in the runtime."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from nodeagent import hookimpl
from nodeagent.contracts.context import AgentContext, ServerContext
from nodeagent.contracts.runtime import ContainerInfo, ContainerState, SandboxInfo
from nodeagent.contracts.server import Exposure, Route
from nodeagent.model.pod import Pod

if TYPE_CHECKING:
    from aiohttp import web

_FINE_GRAINED = ("pods", "proxy")


@hookimpl
def nodeagent_provide_routes(context: ServerContext) -> Sequence[Route]:
    async def pods(request: web.Request) -> web.Response:
        return _list([with_status(context, pod) for pod in context.pods.all()])

    async def running(request: web.Request) -> web.Response:
        sandboxes = await context.runtime.list_sandboxes()
        return _list(running_pods(sandboxes, await context.runtime.list_containers()))

    return (
        Route("GET", "/pods", pods, Exposure.READ_ONLY, fine_grained=_FINE_GRAINED),
        Route("GET", "/pods/", pods, Exposure.READ_ONLY, fine_grained=_FINE_GRAINED),
        Route("GET", "/runningpods", running, Exposure.DEBUG, fine_grained=_FINE_GRAINED),
        Route("GET", "/runningpods/", running, Exposure.DEBUG, fine_grained=_FINE_GRAINED),
    )


def with_status(context: AgentContext, pod: Pod) -> Pod:
    """Return the pod with the latest generated status, which may not be on the API server yet."""
    status = context.pods.status(pod.uid)
    return pod if status is None else msgspec.structs.replace(pod, status=status)


def running_pods(sandboxes: Iterable[SandboxInfo], containers: Iterable[ContainerInfo]) -> list[dict[str, Any]]:
    """Return the pods that have a running container or a ready sandbox, with the data in the runtime."""
    found: dict[str, dict[str, Any]] = {}
    by_sandbox = {sandbox.id: sandbox for sandbox in sandboxes}
    for sandbox in by_sandbox.values():
        if sandbox.ready:
            _entry(found, sandbox)
    for container in containers:
        owner = by_sandbox.get(container.sandbox_id)
        if owner is not None and container.state is ContainerState.RUNNING:
            shown = {"name": container.name, "image": container.image, "resources": {}}
            _entry(found, owner)["spec"]["containers"].append(shown)
    return list(found.values())


def _entry(found: dict[str, dict[str, Any]], sandbox: SandboxInfo) -> dict[str, Any]:
    meta = {"name": sandbox.name, "namespace": sandbox.namespace, "uid": sandbox.uid}
    return found.setdefault(sandbox.uid, {"metadata": meta, "spec": {"containers": []}, "status": {}})


def _list(items: Sequence[Any]) -> web.Response:
    from aiohttp import web

    body = msgspec.json.encode({"kind": "PodList", "apiVersion": "v1", "metadata": {}, "items": items})
    return web.Response(body=body, content_type="application/json")

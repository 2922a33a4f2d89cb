"""Who answers: the verb of a resource, a stream from elsewhere, or one of the paths without a resource."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from apiserver_stub.apimachinery.request import Request, RequestInfo, check_method
from apiserver_stub.apimachinery.status import method_not_allowed, no_such_resource
from apiserver_stub.controllers.namespace_contents import fill_namespace
from apiserver_stub.endpoints import discovery, health, issuer_discovery, openapi, profiling
from apiserver_stub.kinds import Resource
from apiserver_stub.kinds.registry import Deprecation
from apiserver_stub.pipeline.error_responses import PlainNotFound
from apiserver_stub.verbs.create import create
from apiserver_stub.verbs.delete import delete, delete_collection
from apiserver_stub.verbs.get import get
from apiserver_stub.verbs.lists import list_objects
from apiserver_stub.verbs.patch import patch
from apiserver_stub.verbs.reserving import reserving
from apiserver_stub.verbs.responses import Rendered, Reply, render
from apiserver_stub.verbs.update import update
from nodeagent.base import identity

if TYPE_CHECKING:
    from apiserver_stub.server.state import ApiServer

Verb = Callable[["ApiServer", Request, Resource], Awaitable[Reply]]

_VERBS: dict[str, Verb] = {
    "create": create,
    "delete": delete,
    "deletecollection": delete_collection,
    "get": get,
    "list": list_objects,
    "patch": patch,
    "update": update,
}


async def dispatch(server: ApiServer, request: Request, resource: Resource | None) -> Rendered:
    """Return the answer of whoever serves the path.

    :raises ApiError: 404 or 405, nobody does; or what the verb raises.
    """
    info = request.info
    if not info.is_resource:
        return render(await _non_resource(server, request), request, None)
    check_method(info, request.method)
    if resource is None:
        raise no_such_resource()
    if resource.namespaced and not info.namespace and info.verb not in ("list", "watch"):
        raise method_not_allowed()
    if not resource.namespaced and info.namespace and resource.plural != "namespaces":
        raise no_such_resource()
    verb = _verb(request, resource)
    if resource.deprecation is not None:
        note_deprecation(request, resource, resource.deprecation)
    if resource.strategy.reserves:
        reply = await reserving(verb, server, request, resource)
    else:
        reply = await verb(server, request, resource)
    if info.verb == "create" and resource.plural == "namespaces" and reply.record is not None:
        await fill_namespace(server, reply.record.key)
    return render(reply, request, resource)


def note_deprecation(request: Request, resource: Resource, deprecation: Deprecation) -> None:
    """Warn the client that *request* is for a deprecated API version, and annotate the audit event."""
    request.warnings.append(resource.deprecation_warning)
    prefix = identity.current().api_domain
    request.annotations |= {f"{prefix}/deprecated": "true", f"{prefix}/removed-release": deprecation.removal}


def streams(resource: Resource, info: RequestInfo, method: str) -> bool:
    """Return whether the answer comes as a stream from elsewhere.

    :raises ApiError: 404 or 405, there is no such path for this method.
    """
    subresource = resource.subresource(info.subresource) if info.subresource else None
    if subresource is None or subresource.stream is None:
        return False
    check_method(info, method)
    if info.verb not in subresource.verbs:
        raise method_not_allowed()
    if bool(info.namespace) != resource.namespaced or (info.rest and subresource.name != "proxy"):
        raise no_such_resource()
    return True


def _verb(request: Request, resource: Resource) -> Verb:
    info = request.info
    if info.subresource:
        subresource = resource.subresource(info.subresource)
        if subresource is None:
            raise no_such_resource()
        if info.verb not in subresource.verbs:
            raise method_not_allowed()
        action: Verb = subresource.action or _VERBS[info.verb]
        return action
    if info.verb not in resource.verbs or (info.verb == "create" and info.name):
        raise method_not_allowed()
    if info.verb in ("update", "patch") and not info.name:
        raise method_not_allowed()
    return resource.action if info.verb == "create" and resource.action else _VERBS[info.verb]


async def _non_resource(server: ApiServer, request: Request) -> Reply:
    """Return the answer of a path without a resource, whether it ends with a slash or not.

    :raises ApiError: 404, no handler serves it.
    """
    if (path := request.info.path) != "/" and path.endswith("/"):
        request.info = replace(request.info, path=path[:-1])
    for answer in (discovery.answer, issuer_discovery.answer):
        if (reply := answer(server, request)) is not None:
            if request.method not in ("GET", "HEAD") and request.info.path != "/":
                raise method_not_allowed()
            return reply
    for slow_answer in (health.answer, openapi.answer):
        if (reply := await slow_answer(server, request)) is not None:
            return reply
    if server.options.profiling and (reply := await profiling.answer(server, request)) is not None:
        return reply
    if request.info.path == "/metrics":
        body, content_type = server.metrics.render(server, server.metric_choice)
        return Reply(200, body=body, content_type=content_type)
    if request.info.path == health.OUTCOMES_PATH and server.options.gates.enabled("ComponentSLIs"):
        body, content_type = server.health.render(server.metric_choice)
        return Reply(200, body=body, content_type=content_type)
    if _is_of_group(server, request.info.path):
        raise no_such_resource()
    raise PlainNotFound


def _is_of_group(server: ApiServer, path: str) -> bool:
    """Return whether *path* is below that of an API group of this server."""
    _, root, *rest = path.split("/")
    if root == "api":
        return bool(rest)
    return root == "apis" and bool(rest) and rest[0] in dict(server.registry.group_versions())

"""Dispatch requests to resource verbs, actions and non-resource paths."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Protocol

from apiserver_stub.apimachinery.request import Request, RequestInfo, check_method
from apiserver_stub.apimachinery.status import method_not_allowed, no_such_resource
from apiserver_stub.kinds import Resource
from apiserver_stub.kinds.registry import Deprecation
from apiserver_stub.pipeline.error_responses import PlainNotFound
from apiserver_stub.transport.rendered import Rendered
from apiserver_stub.verbs.allocation import with_allocations
from apiserver_stub.verbs.create import create
from apiserver_stub.verbs.delete import delete, delete_collection
from apiserver_stub.verbs.get import get
from apiserver_stub.verbs.lists import list_objects
from apiserver_stub.verbs.patch import patch
from apiserver_stub.verbs.responses import Reply, render
from apiserver_stub.verbs.update import update
from nodeagent.base import tracing

if TYPE_CHECKING:
    from apiserver_stub.subresources import Action, Handlers
    from apiserver_stub.verbs.context import VerbContext

Verb = Callable[["VerbContext", Request, Resource], Awaitable[Reply]]

_VERBS: dict[str, Verb] = {
    "create": create,
    "delete": delete,
    "deletecollection": delete_collection,
    "get": get,
    "list": list_objects,
    "patch": patch,
    "update": update,
}

_SPANS = {
    "create": "Create",
    "delete": "Delete",
    "deletecollection": "Delete",
    "get": "Get",
    "list": "List",
    "patch": "Patch",
    "update": "Update",
}


class Endpoint(Protocol):
    """Handler of paths without a resource."""

    read_only: bool
    """Its paths allow only GET and HEAD."""

    async def respond(self, request: Request) -> Reply | None:
        """Return the response, ``None`` for paths of others.

        :raises ApiError: the request is rejected.
        """


class Dispatcher:
    """Dispatcher of requests to verbs, actions and endpoints.

    :param fill_namespace: creates the objects that every namespace has; called after the creation of one.
    :param check: rejects requests for resources that cannot be written yet.
    """

    def __init__(
        self,
        context: VerbContext,
        handlers: Handlers,
        endpoints: Sequence[Endpoint],
        fill_namespace: Callable[[str], Awaitable[None]],
        check: Callable[[RequestInfo], None] | None = None,
    ) -> None:
        self._context, self._handlers, self._endpoints = context, handlers, endpoints
        self._fill_namespace, self._check = fill_namespace, check

    def dispatch(self, request: Request, resource: Resource | None) -> Awaitable[Rendered]:
        """Return the response to *request*.

        :raises ApiError: 404 or 405, the path or method is not served; or what the handler raises.
        """
        info = request.info
        if not info.is_resource:
            return self._respond(request)
        if self._check is not None:
            self._check(info)
        check_method(info, request.method)
        if resource is None:
            raise no_such_resource()
        if resource.namespaced and not info.namespace and info.verb not in ("list", "watch"):
            raise method_not_allowed()
        if _leaves_namespace(resource, info):
            raise no_such_resource()
        action = self._action_of(request, resource)
        if resource.deprecation is not None:
            note_deprecation(request, resource, resource.deprecation)
        work = self._perform(action, request, resource)
        return tracing.during(_SPANS.get(info.verb, info.verb), work, _attributes, request)

    async def _perform(self, action: Action | None, request: Request, resource: Resource) -> Rendered:
        info = request.info
        if action is not None:
            reply = await action(request, resource)
        elif resource.strategy.reserves:
            reply = await with_allocations(_VERBS[info.verb], self._context, request, resource)
        else:
            reply = await _VERBS[info.verb](self._context, request, resource)
        if info.verb == "create" and resource.plural == "namespaces" and reply.record is not None:
            await self._fill_namespace(reply.record.key)
        with tracing.child("SerializeObject", partial(_encoding, request)):
            return render(reply, request, resource)

    def streams(self, resource: Resource, info: RequestInfo, method: str) -> bool:
        """Return whether the response is a stream.

        :raises ApiError: 404 or 405, the path or method is not served.
        """
        subresource = resource.subresource(info.subresource) if info.subresource else None
        if subresource is None or self._handlers.stream(resource, subresource.name) is None:
            return False
        check_method(info, method)
        if info.verb not in subresource.verbs:
            raise method_not_allowed()
        if bool(info.namespace) != resource.namespaced or (info.rest and subresource.name != "proxy"):
            raise no_such_resource()
        return True

    def check_watch(self, resource: Resource, info: RequestInfo, method: str) -> None:
        """Reject a watch at a path or with a method that is not served.

        :raises ApiError: 404 or 405.
        """
        check_method(info, method)
        if method != "GET":
            raise method_not_allowed()
        if info.subresource or _leaves_namespace(resource, info):
            raise no_such_resource()

    def _action_of(self, request: Request, resource: Resource) -> Action | None:
        """Return the action that *request* is for, ``None`` for a verb.

        :raises ApiError: 404 or 405, the path or method is not served.
        """
        info = request.info
        if info.subresource:
            subresource = resource.subresource(info.subresource)
            if subresource is None:
                raise no_such_resource()
            if info.verb not in subresource.verbs:
                raise method_not_allowed()
            return self._handlers.action(resource, info.subresource)
        if info.verb not in resource.verbs or (info.verb == "create" and info.name):
            raise method_not_allowed()
        if info.verb in ("update", "patch") and not info.name:
            raise method_not_allowed()
        if info.verb == "create":
            return self._handlers.action(resource, "")
        return self._handlers.reader(resource) if info.verb in ("get", "list") else None

    async def _respond(self, request: Request) -> Rendered:
        """Return the response of the endpoint at the path, with or without a slash at its end.

        :raises PlainNotFound: no endpoint serves it.
        """
        if (path := request.info.path) != "/" and path.endswith("/"):
            request.info = replace(request.info, path=path[:-1])
        for endpoint in self._endpoints:
            if (reply := await endpoint.respond(request)) is not None:
                if endpoint.read_only and request.method not in ("GET", "HEAD") and request.info.path != "/":
                    raise method_not_allowed()
                return render(reply, request, None)
        raise PlainNotFound


def _attributes(request: Request) -> tracing.Attributes:
    """Return the attributes of the span of a verb."""
    info = request.info
    return {
        "verb": info.verb,
        "url": info.path,
        "user-agent": request.headers.get("User-Agent", ""),
        "resource": f"{info.resource}/{info.subresource}" if info.subresource else info.resource,
        "scope": "resource" if info.name else "namespace" if info.namespace else "cluster",
    }


def _encoding(request: Request) -> tracing.Attributes:
    return {"method": request.method, "url": request.info.path, "mediaType": request.format.encoding}


def note_deprecation(request: Request, resource: Resource, deprecation: Deprecation) -> None:
    """Warn the client that *request* is for a deprecated API version, and annotate the audit event."""
    request.warnings.append(resource.deprecation_warning)
    prefix = request.identity.api_domain
    request.annotations[f"{prefix}/deprecated"] = "true"
    if deprecation.removal:
        request.annotations[f"{prefix}/removed-release"] = deprecation.removal


def _leaves_namespace(resource: Resource, info: RequestInfo) -> bool:
    """Return whether the path names a namespace that the object is not in; the user is authorized for that namespace.

    The path of a namespace itself names it as well.
    """
    if resource.namespaced or not info.namespace:
        return False
    return resource.plural != "namespaces" or info.name != info.namespace

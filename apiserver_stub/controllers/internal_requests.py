"""Writes of controllers that pass defaulting, validation and admission like those of clients."""

from __future__ import annotations

from typing import TYPE_CHECKING

from apiserver_stub.apimachinery import objects
from apiserver_stub.apimachinery.media import JSON, PLAIN
from apiserver_stub.apimachinery.objects import Object
from apiserver_stub.apimachinery.request import Query, Request, RequestInfo, User
from apiserver_stub.verbs.create import create
from apiserver_stub.verbs.delete import remove_admitted
from nodeagent.base.identity import Identity

if TYPE_CHECKING:
    from apiserver_stub.kinds.registry import Resource
    from apiserver_stub.storage import Record
    from apiserver_stub.verbs.context import VerbContext


def internal_request(
    verb: str,
    method: str,
    resource: Resource,
    identity: Identity,
    controller: str,
    *,
    namespace: str = "",
    name: str = "",
    subresource: str = "",
    body: Object | None = None,
) -> Request:
    """Return a request of the service account of *controller*."""
    account = f"system:serviceaccount:{identity.system_namespace}"
    groups = ("system:serviceaccounts", f"system:serviceaccounts:{identity.system_namespace}", "system:authenticated")
    info = RequestInfo(
        verb,
        "",
        group=resource.group,
        version=resource.version,
        resource=resource.plural,
        subresource=subresource,
        namespace=namespace,
        name=name,
    )
    return Request(
        method,
        info,
        Query(""),
        {"Content-Type": JSON, "User-Agent": controller},
        objects.encode(body) if body is not None else b"",
        User(f"{account}:{controller}", groups=groups),
        PLAIN,
        identity,
    )


async def create_object(
    context: VerbContext, resource: Resource, obj: Object, identity: Identity, controller: str
) -> Record:
    """Create *obj* as the service account of *controller* and return its record.

    :raises ApiError: the object exists, is invalid, or is rejected by an admission plugin.
    """
    namespace = obj["metadata"].get("namespace", "")
    body = {"apiVersion": resource.api_version, "kind": resource.kind, **obj}
    request = internal_request("create", "POST", resource, identity, controller, namespace=namespace, body=body)
    try:
        reply = await create(context, request, resource)
    finally:
        for function in request.afterwards:
            function()
    if reply.record is None:
        raise ValueError("a request that is not a dry run has no record")
    return reply.record


async def delete_object(
    context: VerbContext,
    resource: Resource,
    obj: Object,
    identity: Identity,
    controller: str,
    *,
    propagation: str = "Background",
    grace_seconds: int | None = None,
) -> None:
    """Delete *obj* as the service account of *controller*, but no other object with its name.

    :param propagation: propagation policy of the deletion.
    :param grace_seconds: grace period; by default that of the object.
    :raises ApiError: it cannot be deleted, has been deleted, or an admission plugin rejects the request.
    """
    metadata = obj["metadata"]
    options: Object = {
        "gracePeriodSeconds": grace_seconds,
        "preconditions": {"uid": metadata.get("uid")},
        "dryRun": False,
        "propagationPolicy": propagation,
    }
    key = objects.key_of(metadata.get("namespace", ""), metadata["name"])
    await delete_admitted(context, resource, key, options, identity, controller)


async def delete_admitted(
    context: VerbContext, resource: Resource, key: str, options: Object, identity: Identity, controller: str
) -> None:
    """Delete the object at *key* as the service account of *controller*, if the admission plugins allow it.

    :raises ApiError: it cannot be deleted, has been deleted, or an admission plugin rejects the request.
    """
    namespace, _, name = key.rpartition("/")
    request = internal_request("delete", "DELETE", resource, identity, controller, namespace=namespace, name=name)
    await remove_admitted(context, request, resource, key, name, options)

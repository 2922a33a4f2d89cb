"""PUT: replace an object, or create it if its kind allows that."""

from __future__ import annotations

from typing import TYPE_CHECKING

from apiserver_stub.apimachinery import objects
from apiserver_stub.apimachinery.status import bad_request, not_found
from apiserver_stub.storage import Outcome, Record
from apiserver_stub.verbs import versions
from apiserver_stub.verbs.body import read_object
from apiserver_stub.verbs.preparation import (
    DryRun,
    decide_create,
    plan_update,
    precondition_failed,
    prepare_new,
    settle_namespace,
    undetermined_name,
)
from apiserver_stub.verbs.responses import Reply
from apiserver_stub.verbs.revisions import version_of
from apiserver_stub.verbs.write_options import check_options

if TYPE_CHECKING:
    from apiserver_stub.apimachinery.request import Request
    from apiserver_stub.kinds.registry import Resource
    from apiserver_stub.verbs.context import VerbContext
    from apiserver_stub.verbs.projection import Projection


async def update(
    context: VerbContext, request: Request, resource: Resource, projection: Projection | None = None
) -> Reply:
    """Replace the object by the one in the body; the reply is 200, or 201 if the object was created.

    :param projection: the body is a projection of the object.
    """
    check_options(request, "UpdateOptions")
    info = request.info
    sent = resource if projection is None else projection.resource
    obj = read_object(request, sent.kind, sent.api_version, sent.schema)
    metadata = obj["metadata"]
    if not metadata.get("name"):
        raise undetermined_name(info.name)
    if metadata["name"] != info.name:
        raise bad_request(
            f"the name of the object ({metadata['name']}) does not match the name on the URL ({info.name})"
        )
    if resource.namespaced and metadata.setdefault("namespace", info.namespace) not in ("", info.namespace):
        raise bad_request("the namespace of the provided object does not match the namespace sent on the request")
    created = False

    async def plan(current: Record | None) -> Outcome:
        nonlocal created
        new = objects.clone(obj)  # An attempt changes it; after a concurrent write there is another one.
        created = current is None
        if current is not None:
            if projection is not None:
                new = projection.write(new, resource.read(current))
            return await plan_update(context, request, resource, new, current)
        if not resource.create_on_update or info.subresource not in ("", "status"):
            label = resource.plural if projection is None else f"{resource.plural}/{info.subresource}"
            raise not_found(resource.group, label, info.name)
        if uid := new["metadata"].get("uid"):
            key = resource.key(info.namespace, info.name)
            raise precondition_failed(request, resource, key, info.name, "UID", uid, "")
        version_of(new["metadata"])  # An invalid version is an error, a valid one is ignored.
        settle_namespace(request, resource, new["metadata"])
        return decide_create(context, request, resource, await prepare_new(context, request, resource, new))

    try:
        record = await versions.write(context.store, resource, resource.key(info.namespace, info.name), plan)
    except DryRun as dry_run:
        return Reply(201 if created else 200, obj=dry_run.obj)
    return Reply(201 if created else 200, record=record)

"""Server-side apply: PATCH with a configuration, whose fields the field manager then owns."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from apiserver_stub.apimachinery import objects
from apiserver_stub.apimachinery.objects import Object
from apiserver_stub.apimachinery.status import ApiError, bad_request, conflict, not_found
from apiserver_stub.schema import shapes
from apiserver_stub.storage import Outcome, Record
from apiserver_stub.verbs import versions
from apiserver_stub.verbs.applied_configuration import Configuration, read_configuration
from apiserver_stub.verbs.field_manager import apply_to, kind_of
from apiserver_stub.verbs.preparation import (
    DryRun,
    decide_create,
    plan_update,
    prepare_new,
    settle_namespace,
    undetermined_name,
)
from apiserver_stub.verbs.responses import Reply
from apiserver_stub.verbs.revisions import version_of
from apiserver_stub.verbs.write_options import invalid_options

if TYPE_CHECKING:
    from apiserver_stub.apimachinery.request import Request
    from apiserver_stub.kinds.registry import Resource
    from apiserver_stub.schema.field_ownership import Kind
    from apiserver_stub.verbs.context import VerbContext
    from apiserver_stub.verbs.projection import Projection


async def apply(
    context: VerbContext, request: Request, resource: Resource, projection: Projection | None = None
) -> Reply:
    """Apply the configuration in the body; the reply is 200, or 201 if the object was created.

    :param projection: the body is a configuration of a projection of the object.
    """
    if not request.query.get("fieldManager"):
        text = "Required value: is required for apply patch"
        raise invalid_options(request, "PatchOptions", [("FieldValueRequired", text, "fieldManager")])
    info = request.info
    kind = kind_of(resource, info.subresource, request.identity.api_domain)
    if kind is None:
        raise ApiError(415, "UnsupportedMediaType", "415: Unsupported Media Type\n\nAvailable representations: ", {})
    force, created = request.query.flag("force"), False
    config: Configuration | None = None

    async def plan(current: Record | None) -> Outcome:
        nonlocal created, config
        created = current is None
        if current is None and info.subresource and not resource.create_on_update:
            raise not_found(resource.group, resource.plural, info.name)
        if config is None:
            config = _read(request, resource, kind, projection)
        live = kind.blank if current is None else resource.read(current)
        merged, entries = apply_to(request, resource, kind, live, config.obj, force=force)
        merged = objects.clone(merged)
        config.convert(merged, resource.schema_in(request.identity.api_domain))
        config.report(request)
        metadata = merged["metadata"]
        if current is not None:
            _require_same_object(request, resource, metadata)
            return await plan_update(context, request, resource, merged, current, patched=True, entries=entries)
        if uid := metadata.get("uid"):
            text = f"uid mismatch: the provided object specified uid {uid}, and no existing object was found"
            raise conflict(resource.group, resource.plural, info.name, text)
        settle_namespace(request, resource, metadata)
        _require_same_object(request, resource, metadata)
        version_of(metadata)  # An invalid version is an error, a valid one is ignored.
        return decide_create(context, request, resource, await prepare_new(context, request, resource, merged, entries))

    try:
        record = await versions.write(context.store, resource, resource.key(info.namespace, info.name), plan)
    except DryRun as dry_run:
        return Reply(201 if created else 200, obj=dry_run.obj)
    return Reply(201 if created else 200, record=record)


def _read(request: Request, resource: Resource, kind: Kind, projection: Projection | None) -> Configuration:
    """Return the configuration of the stored object in the body.

    :raises ApiError: 400 or 500, the body is not a valid configuration of this kind.
    """
    if projection is None:
        return read_configuration(request, resource, kind.shape)
    sent = projection.resource
    shape = shapes.of(sent.api_version, sent.kind, request.identity.api_domain) or shapes.UNKNOWN
    config = read_configuration(request, sent, shape)
    return replace(config, obj=projection.configure(config.obj))


def _require_same_object(request: Request, resource: Resource, metadata: Object) -> None:
    """Check that *metadata* has the namespace and name of the URL.

    :raises ApiError: 400, it does not.
    """
    info = request.info
    if resource.namespaced and (metadata.get("namespace") or info.namespace) != info.namespace:
        raise bad_request("the namespace of the provided object does not match the namespace sent on the request")
    if not (name := metadata.get("name")):
        raise undetermined_name(info.name)
    if name != info.name:
        raise bad_request(f"the name of the object ({name}) does not match the name on the URL ({info.name})")

"""PATCH with an apply body: the caller says which fields it wants, and owns them from then on."""

from __future__ import annotations

from typing import TYPE_CHECKING

from apiserver_stub import media, objects, schema, typed
from apiserver_stub.checking import Misfit
from apiserver_stub.objects import Object
from apiserver_stub.reply import Reply
from apiserver_stub.status import ApiError, bad_request, conflict
from apiserver_stub.store import Outcome, Record
from apiserver_stub.verbs.planned import write
from apiserver_stub.verbs.revisions import version_of
from apiserver_stub.verbs.tracking import apply_to, kind_of
from apiserver_stub.verbs.writing import (
    DryRun,
    check_types,
    decide_create,
    invalid_options,
    plan_update,
    prepare_new,
    settle_namespace,
    undetermined_name,
)

if TYPE_CHECKING:
    from apiserver_stub.app import ApiServer
    from apiserver_stub.request import Request
    from apiserver_stub.resources.registry import Resource


async def apply(server: ApiServer, request: Request, resource: Resource) -> Reply:
    """Apply the configuration of the body: 200 with the object, or 201 where it made a new one."""
    if not request.query.get("fieldManager"):
        text = "Required value: is required for apply patch"
        raise invalid_options("PatchOptions", [("FieldValueRequired", text, "fieldManager")])
    info = request.info
    kind = kind_of(resource, info.subresource)
    if kind is None:
        raise ApiError(415, "UnsupportedMediaType", "415: Unsupported Media Type\n\nAvailable representations: ", {})
    config = _read(request, resource)
    force, created = request.query.flag("force"), False

    async def plan(current: Record | None) -> Outcome:
        nonlocal created
        created = current is None
        wanted: Object = objects.decode(objects.encode(config))
        live = kind.blank if current is None else resource.read(current)
        if current is None and info.subresource:
            raise ApiError(404, "NotFound", "the server could not find the requested resource", {})
        merged, entries = apply_to(request, resource, kind, live, wanted, force=force)
        if current is not None:
            merged = objects.decode(objects.encode(merged))
            _convert(request, resource, merged)
            _require_same_object(request, resource, merged["metadata"])
            return await plan_update(server, request, resource, merged, current, patched=True, entries=entries)
        if uid := wanted["metadata"].get("uid"):
            text = f"uid mismatch: the provided object specified uid {uid}, and no existing object was found"
            raise conflict(resource.group, resource.plural, info.name, text)
        settle_namespace(request, resource, wanted["metadata"])
        _require_same_object(request, resource, wanted["metadata"])
        version_of(wanted["metadata"])  # an invalid one is an error, a valid one is ignored
        _convert(request, resource, wanted)
        return decide_create(server, request, resource, await prepare_new(server, request, resource, wanted, entries))

    try:
        record = await write(server.store, resource.storage, resource.key(info.namespace, info.name), plan)
    except DryRun as dry_run:
        return Reply(201 if created else 200, obj=dry_run.obj)
    return Reply(201 if created else 200, record=record)


def _read(request: Request, resource: Resource) -> Object:
    """Return the configuration of the body.

    :raises ApiError: 400 or 500, it is not of this kind.
    """
    config = media.read_yaml(request.body, resource.kind)
    version, kind = config.get("apiVersion") or "", config.get("kind") or ""
    if (version, kind) != (resource.api_version, resource.kind):
        shown = f"{version}, Kind={kind}" if "/" in version else f"/{version}, Kind={kind}"
        raise bad_request(f"invalid object type: {shown}")
    shape = schema.of(resource.api_version, resource.kind)
    if shape is not None and (problems := typed.validate(config, shape)):
        text = problems[0] if len(problems) == 1 else "errors:\n" + "\n".join(f"  {item}" for item in problems)
        raise _untyped(resource, request, _namespace(config), text)
    if config.get("metadata") is None:
        config["metadata"] = {}
    metadata = config["metadata"]
    if metadata.get("managedFields") is not None:
        raise bad_request("metadata.managedFields must be nil")
    return config


def _convert(request: Request, resource: Resource, obj: Object) -> None:
    """Give the values of *obj*, which the schema allows, the types of the kind.

    :raises ApiError: 500, a value cannot be converted.
    """
    try:
        check_types(obj, converts=True)
    except Misfit as error:
        place = f"{obj['metadata'].get('namespace') or ''}/{request.info.name}"
        text = f"failed to convert new object ({place}; {_full_kind(resource)}) to proper version: {error.converting}"
        raise ApiError(500, "", text) from error


def _require_same_object(request: Request, resource: Resource, metadata: Object) -> None:
    """Require that *metadata* names the object of the URL.

    :raises ApiError: 400, it does not.
    """
    info = request.info
    if resource.namespaced and (metadata.get("namespace") or info.namespace) != info.namespace:
        raise bad_request("the namespace of the provided object does not match the namespace sent on the request")
    if not (name := metadata.get("name")):
        raise undetermined_name(info.name)
    if name != info.name:
        raise bad_request(f"the name of the object ({name}) does not match the name on the URL ({info.name})")


def _namespace(config: Object) -> str:
    """Return the namespace that *config* itself names."""
    metadata = config.get("metadata")
    return str(metadata.get("namespace") or "") if isinstance(metadata, dict) else ""


def _untyped(resource: Resource, request: Request, namespace: str, problem: str) -> ApiError:
    place = f"{namespace}/{request.info.name}"
    message = f"failed to create typed patch object ({place}; {_full_kind(resource)}): {problem}"
    return ApiError(500, "", message)


def _full_kind(resource: Resource) -> str:
    version = resource.api_version if resource.group else f"/{resource.version}"
    return f"{version}, Kind={resource.kind}"

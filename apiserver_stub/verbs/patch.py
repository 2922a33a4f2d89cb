"""PATCH: change an object by JSON patch, merge patch or strategic merge patch, or apply one (:mod:`apply`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from apiserver_stub.apimachinery import objects
from apiserver_stub.apimachinery.go_format import go_value, type_name
from apiserver_stub.apimachinery.json_patch import apply_json_patch, apply_merge_patch
from apiserver_stub.apimachinery.media import APPLY_PATCH
from apiserver_stub.apimachinery.objects import Object
from apiserver_stub.apimachinery.status import ApiError, bad_request, internal, invalid_value, not_found
from apiserver_stub.schema import shapes
from apiserver_stub.schema.field_validation import SchemaMismatch, count_members, repeated
from apiserver_stub.schema.strategic_merge import apply_strategic_patch
from apiserver_stub.storage import Outcome, Record
from apiserver_stub.verbs import versions
from apiserver_stub.verbs.apply import apply
from apiserver_stub.verbs.body import check_types, kind_problem, report, wrong_kind
from apiserver_stub.verbs.preparation import DryRun, plan_update, undetermined_name
from apiserver_stub.verbs.responses import Reply
from apiserver_stub.verbs.write_options import check_options, invalid_options

if TYPE_CHECKING:
    from apiserver_stub.apimachinery.request import Request
    from apiserver_stub.kinds.registry import Resource
    from apiserver_stub.verbs.context import VerbContext
    from apiserver_stub.verbs.projection import Projection

_JSON_PATCH = "application/json-patch+json"
_MERGE_PATCH = "application/merge-patch+json"
_STRATEGIC_PATCH = "application/strategic-merge-patch+json"
_OPERATION_MEMBERS = frozenset(["op", "path", "from", "value"])


async def patch(
    context: VerbContext, request: Request, resource: Resource, projection: Projection | None = None
) -> Reply:
    """Apply the patch in the body; the reply is 200 with the object. A patch without effect writes nothing.

    :param projection: the patch is for a projection of the object.
    """
    check_options(request, "PatchOptions")
    media_type = request.headers.get("Content-Type", "").partition(";")[0].strip()
    if resource.patch_types and media_type not in resource.patch_types:
        text = "the body of the request was in an unknown format - accepted media types include: "
        raise ApiError(415, "UnsupportedMediaType", text + ", ".join(resource.patch_types), {})
    if media_type == APPLY_PATCH:
        return await apply(context, request, resource, projection)
    if request.query.flag("force"):
        text = "Forbidden: may not be specified for non-apply patch"
        raise invalid_options(request, "PatchOptions", [("FieldValueForbidden", text, "force")])
    if media_type not in (_JSON_PATCH, _MERGE_PATCH, _STRATEGIC_PATCH):
        raise ApiError(415, "UnsupportedMediaType", "415: Unsupported Media Type\n\nAvailable representations: ", {})
    try:
        body = objects.decode(request.body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        problem = "unexpected end of JSON input" if "truncated" in str(error) else str(error)
        raise bad_request(f"error decoding patch: {problem}") from error
    info = request.info
    sent = resource if projection is None else projection.resource
    warned = False

    async def plan(current: Record | None) -> Outcome:
        nonlocal warned
        if current is None:
            label = resource.plural if projection is None else f"{resource.plural}/{info.subresource}"
            raise not_found(resource.group, label, info.name)
        stored = resource.read(current)
        old = stored if projection is None else projection.read(stored)
        new = _apply(sent, request.identity.api_domain, media_type, old, body)
        restore_type(sent, media_type, new, info.subresource)
        try:
            findings = check_types(
                new, sent.schema_in(request.identity.api_domain), converts=media_type == _STRATEGIC_PATCH
            )
        except SchemaMismatch as error:
            if media_type == _STRATEGIC_PATCH:
                raise _invalid_patch(go_value(body), error.converting) from error
            raise _invalid_patch(objects.encode(new).decode(), str(error)) from error
        if not warned:
            if problem := _report(request, media_type, body, findings.unknown):
                if media_type == _STRATEGIC_PATCH:
                    raise _invalid_patch(go_value(body), problem)
                raise _invalid_result(_apply(sent, request.identity.api_domain, media_type, old, body), problem)
            warned = True
        metadata = new["metadata"]
        if not metadata.get("name"):
            raise undetermined_name(info.name)
        if resource.namespaced and metadata.get("namespace", info.namespace) != info.namespace:
            raise bad_request("the namespace of the provided object does not match the namespace sent on the request")
        if projection is not None:
            new = projection.write(new, stored)
        return await plan_update(context, request, resource, new, current, patched=True)

    try:
        record = await versions.write(context.store, resource, resource.key(info.namespace, info.name), plan)
    except DryRun as dry_run:
        return Reply(200, obj=dry_run.obj)
    return Reply(200, record=record)


def restore_type(resource: Resource, media_type: str, new: Object, subresource: str = "") -> None:
    """Restore the kind and API version of *new*, which the patch may have changed or removed.

    :raises ApiError: 422, a JSON or merge patch changed them, which it may for the status of a custom kind, or it
        removed those of a custom kind; 500, a merge patch removed the API version of a custom kind.
    """
    is_open = resource.schema is not None and resource.schema.is_open
    if is_open:
        _require_open_type(media_type, new)
    kind, version = new.get("kind") or resource.kind, new.get("apiVersion") or resource.api_version
    if media_type != _STRATEGIC_PATCH and (kind, version) != (resource.kind, resource.api_version):
        if is_open and subresource != "status":
            raise wrong_kind(new, resource.kind, resource.api_version)
        if not is_open:
            problem = f'no kind "{kind}" is registered for version "{version}" in scheme "apiserver_stub"'
            raise _invalid_result(new, problem)
    new["kind"], new["apiVersion"] = resource.kind, resource.api_version


def _require_open_type(media_type: str, new: Object) -> None:
    """Check that *new*, a patched object of a custom kind, states its kind and API version.

    :raises ApiError: 422 or 500, it does not.
    """
    if problem := kind_problem(new, objects.encode(new).decode()):
        raise _invalid_result(new, problem)
    if "apiVersion" in new and new["apiVersion"] is None:
        raise _invalid_result(new, ".apiVersion accessor error: <nil> is of the type <nil>, expected string")
    if "apiVersion" not in new and media_type == _MERGE_PATCH:
        raise internal("Object 'apiVersion' is missing in 'object has no apiVersion field'")


def _report(request: Request, media_type: str, body: Any, unknown: list[str]) -> str:
    """Report unknown and duplicate fields; return the reason for rejecting the request, or an empty text."""
    if media_type != _JSON_PATCH:
        return report(request, unknown, repeated(request.body, count_members(body)))
    unknown_in_patch = [
        f"[{index}].{name}"
        for index, operation in enumerate(body or ())
        for name in (operation or {}).keys() - _OPERATION_MEMBERS
    ]
    duplicates = repeated(request.body, count_members(body), unknown_in_patch)
    problems = [f'json patch unknown field "{path}"' for path in unknown_in_patch]
    problems += [f'json patch duplicate field "{path}"' for path in duplicates]
    return report(request, unknown, more=problems)


def _apply(resource: Resource, api_domain: str, media_type: str, old: Object, body: Any) -> Object:
    result: Any
    if media_type == _JSON_PATCH:
        result = apply_json_patch(old, body)
    elif media_type == _STRATEGIC_PATCH:
        result = apply_strategic_patch(old, {} if body is None else body, _shape(resource, api_domain))
    elif not isinstance(body, dict):
        json_type = type_name(body)
        raise bad_request(
            f"error decoding patch: json: cannot unmarshal {json_type} into Go value of type map[string]interface {{}}"
        )
    else:
        result = apply_merge_patch(objects.clone(old), body)  # The result shares values with its argument.
    if not isinstance(result, dict):
        raise _invalid_result(result, "cannot restore struct from: string")
    return result


def _shape(resource: Resource, api_domain: str) -> shapes.Shape:
    schema = resource.schema_in(api_domain)
    return shapes.UNKNOWN if schema is None else schema.shape


def _invalid_result(result: Any, message: str) -> ApiError:
    return _invalid_patch(objects.encode(result).decode(), message)


def _invalid_patch(value: str, message: str) -> ApiError:
    cause = invalid_value("patch", value, message)
    details = {"causes": [{"reason": cause.reason, "message": cause.message, "field": cause.field}]}
    return ApiError(422, "Invalid", f' "" is invalid: patch: {cause.message}', details)

"""AdmissionReview messages: requests to webhooks and their responses, in both versions. No I/O."""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import field

from apiserver_stub.apimachinery import objects
from apiserver_stub.apimachinery.go_format import type_name
from apiserver_stub.apimachinery.objects import Object
from apiserver_stub.apimachinery.status import ApiError
from apiserver_stub.kinds.registry import Resource
from apiserver_stub.verbs.admission import AdmissionRequest
from apiserver_stub.webhook import WebhookError
from nodeagent.base import gobase64
from nodeagent.base.structs import MutableStruct

VERSIONS = ("v1", "v1beta1")
_TYPES: dict[str, type] = {
    "uid": str,
    "allowed": bool,
    "status": dict,
    "patch": str,
    "patchType": str,
    "auditAnnotations": dict,
    "warnings": list,
}
"""Types of the fields of a response."""
_OPTIONS = {"CREATE": "CreateOptions", "UPDATE": "UpdateOptions", "DELETE": "DeleteOptions"}


class WebhookCallError(WebhookError):
    """A webhook could not be called, or its response is invalid."""


class AdmissionResponse(MutableStruct):
    """The decision of a webhook."""

    allowed: bool
    status: Object = field(default_factory=dict)
    patch: list[Any] | None = None
    annotations: dict[str, str] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)


def request_body(
    call: AdmissionRequest, resource: Resource, version: str, new: Object | None, old: Object | None
) -> Object:
    """Return the AdmissionReview of *call*; *new* and *old* are its objects in the version of *resource*."""
    user = call.request.user
    request: Object = {
        "uid": objects.new_uid(),
        "kind": _kind(call, resource),
        "resource": _plural(resource),
        "requestKind": _kind(call, call.resource),
        "requestResource": _plural(call.resource),
        "name": call.name,
        "operation": call.operation,
        "userInfo": {"username": user.name, "groups": list(user.groups)},
        "object": new,
        "oldObject": old,
        "dryRun": call.dry_run,
        "options": _options(call),
    }
    if call.subresource:
        request["subResource"] = request["requestSubResource"] = call.subresource
    if call.resource.namespaced:
        request["namespace"] = call.namespace
    elif call.resource.plural == "namespaces":
        request["namespace"] = call.name
    if user.uid:
        request["userInfo"]["uid"] = user.uid
    if user.extra:
        request["userInfo"]["extra"] = {key: list(values) for key, values in user.extra.items()}
    api_version = f"{call.request.identity.group('admission')}/{version}"
    return {"kind": "AdmissionReview", "apiVersion": api_version, "request": request}


def read_response(body: Object, api_version: str, uid: str, *, may_patch: bool) -> AdmissionResponse:
    """Return the decision of the webhook.

    :param api_version: the API version of the request.
    :raises WebhookCallError: the response is invalid.
    """
    version, response = api_version.rpartition("/")[2], body.get("response")
    if not isinstance(response, dict):
        raise WebhookCallError("webhook response was absent")
    if version == "v1":
        if body.get("apiVersion") != api_version or body.get("kind") != "AdmissionReview":
            given = f"{body.get('apiVersion')}, Kind={body.get('kind')}"
            raise WebhookCallError(f"expected webhook response of {api_version}, Kind=AdmissionReview, got {given}")
        if response.get("uid") != uid:
            raise WebhookCallError(f'expected response.uid="{uid}", got "{response.get("uid") or ""}"')
    for name, kind in _TYPES.items():
        if not isinstance(value := response.get(name), kind | None):
            raise WebhookCallError(f"received invalid webhook response: {name} is of type {type_name(value)}")
    patch, patch_type = response.get("patch"), response.get("patchType")
    if patch and not may_patch:
        raise WebhookCallError("validating webhook may not return response.patch")
    annotations, warnings = response.get("auditAnnotations") or {}, response.get("warnings") or []
    if not all(isinstance(text, str) for text in (*annotations.values(), *warnings)):
        raise WebhookCallError("received invalid webhook response: an annotation or a warning is not a string")
    try:
        result = AdmissionResponse(
            bool(response.get("allowed")),
            response.get("status") or {},
            annotations=annotations,
            warnings=[text[:256] for text in warnings],
        )
        if patch:
            if version == "v1" and patch_type != "JSONPatch":
                raise WebhookCallError(
                    f'webhook returned response.patch but not response.patchType, got "{patch_type or ""}"'
                )
            result.patch = msgspec.json.decode(gobase64.decode(patch), type=list[dict[str, Any]] | None)
    except (ValueError, RecursionError) as error:
        raise WebhookCallError(f"received invalid webhook response: {error}") from error
    return result


def denial(webhook: str, status: Object) -> ApiError:
    """Return the error of a request that *webhook* denied."""
    text = f'admission webhook "{webhook}" denied the request'
    explanation = status.get("message") or status.get("reason")
    text = f"{text}: {explanation}" if explanation else f"{text} without explanation"
    code = status.get("code")
    code = code if isinstance(code, int) and code in range(400, 600) else 400
    details = status.get("details")
    return ApiError(code, str(status.get("reason") or ""), text, details if isinstance(details, dict) else None)


def _kind(call: AdmissionRequest, resource: Resource) -> Object:
    subresource = resource.subresource(call.subresource) if call.subresource else None
    if subresource is None or not subresource.kind:
        return {"group": resource.group, "version": resource.version, "kind": resource.kind}
    group = resource.group if subresource.group is None else subresource.group
    return {"group": group, "version": subresource.version or resource.version, "kind": subresource.kind}


def _plural(resource: Resource) -> Object:
    return {"group": resource.group, "version": resource.version, "resource": resource.plural}


def _options(call: AdmissionRequest) -> Object | None:
    kind = _OPTIONS.get(call.operation)
    if kind is None:
        return None
    if call.request.method == "PATCH" and call.operation != "DELETE":
        kind = "PatchOptions" if call.operation == "UPDATE" else kind
    options: Object = {"kind": kind, "apiVersion": f"{call.request.identity.group('meta')}/v1", **call.options}
    query = call.request.query
    for name in ("fieldManager", "fieldValidation"):
        if value := query.get(name):
            options[name] = value
    if call.dry_run:
        options["dryRun"] = ["All"]
    return options

"""Variables of the match conditions of webhooks and policies. No I/O."""

from __future__ import annotations

from typing import Any

from apiserver_stub.admission.webhooks.review import VERSIONS, request_body
from apiserver_stub.apimachinery.objects import Object
from apiserver_stub.cel.authorization import authorizer_value
from apiserver_stub.kinds.registry import Resource
from apiserver_stub.verbs.admission import AdmissionRequest


def condition_data(call: AdmissionRequest, seen_as: Resource) -> dict[str, Any]:
    """Return the variables of match conditions; objects are in the version of *seen_as*."""
    new, old = in_version(call.new, seen_as), in_version(call.old, seen_as)
    request = request_body(call, seen_as, VERSIONS[0], None, None)["request"]
    del request["object"], request["oldObject"]
    return {
        "object": new,
        "oldObject": old,
        "request": request,
        "namespaceObject": None,
        "authorizer": authorizer_value(call.request.info),
    }


def in_version(obj: Object | None, resource: Resource) -> Object | None:
    """Return *obj* converted to the version of *resource*."""
    if obj is None or not resource.has_versions or obj.get("apiVersion") == resource.api_version:
        return obj
    return resource.seen(obj)

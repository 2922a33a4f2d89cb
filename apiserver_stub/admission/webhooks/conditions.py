"""Variables of the match conditions of webhooks and policies."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from apiserver_stub.admission.webhooks.review import VERSIONS, request_body
from apiserver_stub.apimachinery.objects import Object
from apiserver_stub.cel.authorization import authorizer_value
from apiserver_stub.kinds.registry import Resource
from apiserver_stub.verbs.admission import AdmissionRequest
from apiserver_stub.verbs.versions import document

Views = dict[str, tuple[Object | None, Object | None]]
"""New and old object of a request, by API version."""


def condition_data(call: AdmissionRequest, seen_as: Resource, views: Views) -> dict[str, Any]:
    """Return the variables of match conditions; objects are those of *views* in the version of *seen_as*."""
    new, old = views[seen_as.api_version]
    request = request_body(call, seen_as, VERSIONS[0], None, None)["request"]
    del request["object"], request["oldObject"]
    return {
        "object": new,
        "oldObject": old,
        "request": request,
        "namespaceObject": None,
        "authorizer": authorizer_value(call.request.info),
    }


async def views_of(call: AdmissionRequest, versions: Iterable[Resource]) -> Views:
    """Return the new and the old object of *call* in each of *versions*, by API version.

    :raises ApiError: 500, a conversion failed.
    """
    found: Views = {}
    for resource in versions:
        if resource.api_version not in found:
            found[resource.api_version] = (await in_version(call.new, resource), await in_version(call.old, resource))
    return found


async def in_version(obj: Object | None, resource: Resource) -> Object | None:
    """Return *obj* converted to the version of *resource*.

    :raises ApiError: 500, the conversion failed.
    """
    if obj is None or obj.get("apiVersion") == resource.api_version:
        return obj
    return await document(resource, obj) if resource.convert is None else resource.convert(obj)

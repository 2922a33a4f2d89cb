"""Subresource ``scale``: number of replicas of an object, in a form that is the same for all kinds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from apiserver_stub.apimachinery import objects
from apiserver_stub.apimachinery.go_format import go_type, go_value
from apiserver_stub.apimachinery.objects import Object, dig
from apiserver_stub.apimachinery.status import (
    ApiError,
    bad_request,
    conflict,
    internal,
    invalid,
    invalid_value,
    not_found,
    quote,
)
from apiserver_stub.kinds.registry import Resource, ScalePaths
from apiserver_stub.verbs.get import get
from apiserver_stub.verbs.patch import patch
from apiserver_stub.verbs.projection import Projection
from apiserver_stub.verbs.responses import Reply
from apiserver_stub.verbs.update import update

if TYPE_CHECKING:
    from apiserver_stub.apimachinery.request import Request
    from apiserver_stub.verbs.context import VerbContext

_GROUP, _KIND = "autoscaling", "Scale"
_METADATA = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")
_UNSET = -(2**31)
"""Replicas of an object without the field, which patches of the scale see; the same as upstream."""


class Scales:
    """Handler of the subresource ``scale`` of the kinds that declare its fields."""

    def __init__(self, context: VerbContext) -> None:
        self._context = context

    async def handle(self, request: Request, resource: Resource) -> Reply:
        """Read or change the scale of an object.

        :raises ApiError: the object or its number of replicas does not exist, or the request is invalid or rejected.
        """
        projection = projection_of(resource)
        if request.info.verb == "get":
            reply = await self._get(request, resource)
        elif request.info.verb == "update":
            reply = await update(self._context, request, resource, projection)
        else:
            reply = await patch(self._context, request, resource, projection)
        obj = reply.obj if reply.record is None else resource.read(reply.record)
        scale = projection.read(obj or {})
        if scale["spec"].get("replicas") == _UNSET:
            raise internal(f"the spec replicas field {_replicas_field(resource)} does not exist")
        return Reply(reply.code, obj=scale)

    async def _get(self, request: Request, resource: Resource) -> Reply:
        try:
            return await get(self._context, request, resource)
        except ApiError as error:
            if error.reason != "NotFound":
                raise
            raise not_found(resource.group, _label(resource), request.info.name) from error


def projection_of(resource: Resource) -> Projection:
    """Return the scale of objects of *resource*."""
    paths = _paths(resource)
    scale = Resource(_GROUP, "v1", _KIND, "scales", namespaced=resource.namespaced)

    def read(obj: Object) -> Object:
        metadata = obj["metadata"]
        status: Object = {"replicas": _number(obj, paths.observed) or 0}
        if selector := paths.selector(obj):
            status["selector"] = selector
        replicas = _number(obj, paths.replicas)
        if replicas is None:
            replicas = _UNSET
        return {
            "kind": _KIND,
            "apiVersion": scale.api_version,
            "metadata": {name: metadata[name] for name in _METADATA if name in metadata},
            "spec": {"replicas": replicas} if replicas else {},
            "status": status,
        }

    def write(sent: Object, obj: Object) -> Object:
        read(obj)
        metadata, stored = sent["metadata"], obj["metadata"]
        replicas = dig(sent, ("spec", "replicas")) or 0
        if replicas == _UNSET:
            raise bad_request(f"the spec replicas field {_replicas_field(resource)} cannot be empty")
        if replicas < 0:
            cause = invalid_value("spec.replicas", replicas, "must be greater than or equal to 0")
            raise invalid(_GROUP, _KIND, stored["name"], [cause])
        if (uid := metadata.get("uid")) and uid != stored["uid"]:
            text = f"Precondition failed: UID in precondition: {uid}, UID in object meta: {stored['uid']}"
            raise conflict(resource.group, _label(resource), stored["name"], text)
        new: Object = objects.decode(objects.encode(obj))
        new["metadata"]["resourceVersion"] = metadata.get("resourceVersion") or ""
        _put(new, paths.replicas, replicas)
        return new

    def configure(config: Object) -> Object:
        new: Object = {
            "kind": resource.kind,
            "apiVersion": resource.api_version,
            "metadata": config.get("metadata") or {},
        }
        if (replicas := dig(config, ("spec", "replicas"))) is not None:
            _put(new, paths.replicas, replicas)
        return new

    return Projection(scale, read, write, configure)


def _label(resource: Resource) -> str:
    """Return the name of the subresource in errors."""
    return f"{resource.plural}/scale"


def _paths(resource: Resource) -> ScalePaths:
    if resource.scale is None:
        raise ValueError(f"{resource.plural} of {resource.api_version} has no scale")
    return resource.scale


def _replicas_field(resource: Resource) -> str:
    """Return the quoted path of the number of replicas."""
    return quote(f".{'.'.join(_paths(resource).replicas)}")


def _number(obj: Object, path: tuple[str, ...]) -> int | None:
    """Return the number at *path*, ``None`` if it is missing.

    :raises ApiError: 500, as upstream; the object was stored before its definition had a scale, and has another type.
    """
    value: Any = obj
    for count, name in enumerate(path, 1):
        if value is None:
            return None
        if not isinstance(value, dict):
            raise _wrong_type(path[:count], value, "map[string]interface{}")
        if name not in value:
            return None
        value = value[name]
    if not isinstance(value, int) or isinstance(value, bool):
        raise _wrong_type(path, value, "int64")
    return value


def _wrong_type(path: tuple[str, ...], value: Any, expected: str) -> ApiError:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    found = ("int64" if isinstance(value, int) else "float64") if number else go_type(value)
    return ApiError(
        500, "", f".{'.'.join(path)} accessor error: {go_value(value)} is of the type {found}, expected {expected}"
    )


def _put(obj: Object, path: tuple[str, ...], value: Any) -> None:
    """Set the value at *path*.

    :raises ApiError: 500, as upstream; a part of *path* has another type, such as null.
    """
    for count, name in enumerate(path[:-1], 1):
        obj = obj.setdefault(name, {})
        if not isinstance(obj, dict):
            text = f"value cannot be set because .{'.'.join(path[:count])} is not a map[string]interface{{}}"
            raise ApiError(500, "", text)
    obj[path[-1]] = value

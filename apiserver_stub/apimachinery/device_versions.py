"""Conversion of the kinds of API group ``resource`` between their versions. No I/O.

``v1`` and ``v1beta2`` have the same fields. In ``v1beta1``, the fields of ``exactly`` are those of the request itself,
and the fields of a device are below ``basic``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from apiserver_stub.apimachinery.objects import Object, dig

FLAT = "v1beta1"
"""Version whose requests and devices have another structure."""
_OF_REQUEST = (
    "deviceClassName",
    "selectors",
    "allocationMode",
    "count",
    "adminAccess",
    "tolerations",
    "capacity",
)
_UNSET: tuple[Any, ...] = (None, "", 0, [], False)


def convert(group: str, version: str, obj: Object) -> Object:
    """Return *obj* in *version* of *group*; parts that do not change are shared."""
    new = structured(obj)
    if version == FLAT:
        new = flattened(new, str(obj.get("kind") or ""))
    return {**new, "apiVersion": f"{group}/{version}"}


def structured(obj: Object) -> Object:
    """Return *obj* with the structure of ``v1``, and its own API version."""
    if not str(obj.get("apiVersion") or "").endswith(f"/{FLAT}"):
        return obj
    return nested(obj, str(obj.get("kind") or ""))


def nested(obj: Object, kind: str) -> Object:
    """Return *obj*, which has the structure of ``v1beta1``, with that of ``v1``."""
    return _restructured(obj, kind, flat=False)


def flattened(obj: Object, kind: str) -> Object:
    """Return *obj*, which has the structure of ``v1``, with that of ``v1beta1``."""
    return _restructured(obj, kind, flat=True)


def _restructured(obj: Object, kind: str, *, flat: bool) -> Object:
    request, device = (_flat_request, _flat_device) if flat else (_nested_request, _nested_device)
    spec = obj.get("spec") or {}
    match kind:
        case "ResourceClaim":
            return {**obj, "spec": _with_requests(spec, request)}
        case "ResourceClaimTemplate":
            return {**obj, "spec": {**spec, "spec": _with_requests(spec.get("spec") or {}, request)}}
        case "ResourceSlice":
            return {**obj, "spec": _slice_spec(spec, device, flat=flat)}
    return obj


def _with_requests(spec: Object, change: Callable[[Object], Object]) -> Object:
    requests = dig(spec, ("devices", "requests"))
    if not requests:
        return spec
    return {**spec, "devices": {**spec["devices"], "requests": [change(item) for item in requests]}}


def _nested_request(request: Object) -> Object:
    own = {name: request[name] for name in _OF_REQUEST if request.get(name) not in _UNSET}
    if request.get("adminAccess") is not None:
        own["adminAccess"] = request["adminAccess"]
    left = {name: value for name, value in request.items() if name not in _OF_REQUEST}
    return {**left, "exactly": {"deviceClassName": "", **own}} if own else left


def _flat_request(request: Object) -> Object:
    left = {name: value for name, value in request.items() if name != "exactly"}
    return {"deviceClassName": "", **left, **(request.get("exactly") or {})}


def _nested_device(device: Object) -> Object:
    return {**{name: value for name, value in device.items() if name != "basic"}, **(device.get("basic") or {})}


def _flat_device(device: Object) -> Object:
    basic = {name: value for name, value in device.items() if name != "name"}
    return {"name": device.get("name") or "", "basic": basic}


def _slice_spec(spec: Object, change: Callable[[Object], Object], *, flat: bool) -> Object:
    new = {**spec}
    if not flat:
        for name in ("nodeName", "allNodes"):
            if not new.get(name):
                new.pop(name, None)
    if new.get("devices"):
        new["devices"] = [change(item) for item in new["devices"]]
    return new

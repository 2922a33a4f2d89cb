"""Defaults of resource claims and slices, which have the structure of API version ``v1``."""

from __future__ import annotations

from apiserver_stub.apimachinery import objects
from apiserver_stub.apimachinery.objects import Object
from apiserver_stub.defaulting.table import Defaults


def _set_count(request: Object) -> None:
    mode = request.setdefault("allocationMode", "ExactCount")
    if mode == "ExactCount" and not request.get("count"):
        request["count"] = 1


def _set_operator(toleration: Object) -> None:
    if not toleration.get("operator"):
        toleration["operator"] = "Equal"


def _set_multipliers(device: Object) -> None:
    for mapping in (device.get("nodeAllocatableResourceMappings") or {}).values():
        mapping.setdefault("allocationMultiplier", "1")


def _set_time_added(taint: Object) -> None:
    taint.setdefault("timeAdded", objects.now())


_TOLERATIONS = Defaults(rule=_set_operator)
_REQUEST = Defaults(rule=_set_count, below={"tolerations": _TOLERATIONS})
_CLAIM_SPEC = Defaults(
    below={"devices": Defaults(below={"requests": Defaults(below={"exactly": _REQUEST, "firstAvailable": _REQUEST})})}
)
CLAIM = Defaults(below={"spec": _CLAIM_SPEC})
TEMPLATE = Defaults(below={"spec": Defaults(below={"spec": _CLAIM_SPEC})})
SLICE = Defaults(
    below={
        "spec": Defaults(
            below={"devices": Defaults(rule=_set_multipliers, below={"taints": Defaults(rule=_set_time_added)})}
        )
    }
)
TAINT_RULE = Defaults(below={"spec": Defaults(below={"taint": Defaults(rule=_set_time_added)})})

"""RuntimeClass admission plugin: set overhead, node selector and tolerations of the pod's runtime class."""

from __future__ import annotations

from typing import Self

from apiserver_stub.admission import AdmissionPlugin
from apiserver_stub.admission.context import AdmissionContext
from apiserver_stub.admission.listers import Lister
from apiserver_stub.admission.tolerations import merged
from apiserver_stub.apimachinery import resource_lists
from apiserver_stub.apimachinery.objects import Object
from apiserver_stub.verbs.admission import AdmissionRequest
from nodeagent.base.identity import Identity

_OTHER_OVERHEAD = "pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead"


class RuntimeClass(AdmissionPlugin):
    """Set overhead, node selector and tolerations of the pod's runtime class (spec: admission.RuntimeClass)."""

    name = "RuntimeClass"
    order = 2500
    enabled_by_default = True
    resources = ("pods",)
    operations = ("CREATE",)

    def __init__(self, lister: Lister, identity: Identity) -> None:
        self._lister = lister
        self._classes = identity.group("node") + "/runtimeclasses"

    @classmethod
    async def create(cls, context: AdmissionContext) -> Self:
        return cls(context.lister, context.identity)

    async def admit(self, call: AdmissionRequest) -> None:
        spec = call.obj["spec"]
        runtime_class = self._class_of(call)
        overhead = (runtime_class.get("overhead") or {}).get("podFixed")
        if overhead:
            if spec.get("overhead") and resource_lists.read(spec["overhead"]) != resource_lists.read(overhead):
                raise call.forbidden(_OTHER_OVERHEAD)
            spec["overhead"] = dict(overhead)
        scheduling = runtime_class.get("scheduling") or {}
        if selector := scheduling.get("nodeSelector"):
            given = dict(spec.get("nodeSelector") or {})
            for key, value in sorted(selector.items()):
                if given.setdefault(key, value) != value:
                    text = f"conflict: runtimeClass.scheduling.nodeSelector[{key}] = {value}; "
                    raise call.forbidden(f"{text}pod.spec.nodeSelector[{key}] = {given[key]}")
            spec["nodeSelector"] = given
        if runtime_class.get("scheduling") is not None:
            tolerations = merged(spec.get("tolerations") or (), scheduling.get("tolerations") or ())
            if tolerations:
                spec["tolerations"] = tolerations

    async def validate(self, call: AdmissionRequest) -> None:
        given = call.obj["spec"].get("overhead")
        overhead = (self._class_of(call).get("overhead") or {}).get("podFixed")
        if overhead and resource_lists.read(given) != resource_lists.read(overhead):
            raise call.forbidden(_OTHER_OVERHEAD)
        if given and not overhead:
            raise call.forbidden("pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead")

    def _class_of(self, call: AdmissionRequest) -> Object:
        name = call.obj["spec"].get("runtimeClassName")
        if not name:
            return {}
        found = self._lister.find(self._classes, name)
        if found is None:
            raise call.forbidden(f'pod rejected: RuntimeClass "{name}" not found')
        return found

"""DefaultIngressClass admission plugin: set the default ingress class of new ingresses without a class."""

from __future__ import annotations

from typing import Self

from apiserver_stub.admission import AdmissionPlugin
from apiserver_stub.admission.context import AdmissionContext
from apiserver_stub.admission.listers import Lister, annotations_of
from apiserver_stub.apimachinery.status import qualified
from apiserver_stub.verbs.admission import AdmissionRequest
from nodeagent.base import identity

_GROUP = identity.current().group("networking")
_DEFAULT_CLASS = f"ingressclass.{identity.current().label_domain}/is-default-class"
_OLD_CLASS = identity.current().label("ingress.class")


class DefaultIngressClass(AdmissionPlugin):
    """Set the default ingress class of new ingresses without a class (spec: admission.DefaultIngressClass)."""

    name = "DefaultIngressClass"
    order = 3000
    enabled_by_default = True
    resources = (qualified("ingresses", _GROUP),)
    operations = ("CREATE",)

    def __init__(self, lister: Lister) -> None:
        self._lister = lister

    @classmethod
    async def create(cls, context: AdmissionContext) -> Self:
        return cls(context.lister)

    async def admit(self, call: AdmissionRequest) -> None:
        spec = call.obj["spec"] = call.obj.get("spec") or {}
        if spec.get("ingressClassName") is not None or _OLD_CLASS in annotations_of(call.obj):
            return
        classes = self._lister.every(f"{_GROUP}/ingressclasses")
        defaults = [item for item in classes if annotations_of(item).get(_DEFAULT_CLASS) == "true"]
        if defaults:
            defaults.sort(key=lambda item: str(item["metadata"]["name"]))
            latest = max(defaults, key=lambda item: str(item["metadata"]["creationTimestamp"]))
            spec["ingressClassName"] = latest["metadata"]["name"]

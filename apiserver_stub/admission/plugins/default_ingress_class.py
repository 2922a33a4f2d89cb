"""DefaultIngressClass admission plugin: set the default ingress class of new ingresses without a class."""

from __future__ import annotations

from typing import Self

from apiserver_stub.admission import AdmissionPlugin
from apiserver_stub.admission.context import AdmissionContext
from apiserver_stub.admission.listers import Lister, annotations_of
from apiserver_stub.apimachinery.status import qualified
from apiserver_stub.verbs.admission import AdmissionRequest
from nodeagent.base.identity import Identity


class DefaultIngressClass(AdmissionPlugin):
    """Set the default ingress class of new ingresses without a class (spec: admission.DefaultIngressClass)."""

    name = "DefaultIngressClass"
    order = 3000
    enabled_by_default = True
    operations = ("CREATE",)

    def __init__(self, lister: Lister, identity: Identity) -> None:
        self._lister = lister
        group = identity.group("networking")
        self.resources = (qualified("ingresses", group),)
        self._classes = f"{group}/ingressclasses"
        self._default_class = identity.label("is-default-class", "ingressclass")
        self._old_class = identity.label("ingress.class")

    @classmethod
    async def create(cls, context: AdmissionContext) -> Self:
        return cls(context.lister, context.identity)

    async def admit(self, call: AdmissionRequest) -> None:
        spec = call.obj["spec"] = call.obj.get("spec") or {}
        if spec.get("ingressClassName") is not None or self._old_class in annotations_of(call.obj):
            return
        classes = self._lister.every(self._classes)
        defaults = [item for item in classes if annotations_of(item).get(self._default_class) == "true"]
        if defaults:
            defaults.sort(key=lambda item: str(item["metadata"]["name"]))
            latest = max(defaults, key=lambda item: str(item["metadata"]["creationTimestamp"]))
            spec["ingressClassName"] = latest["metadata"]["name"]

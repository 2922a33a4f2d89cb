"""Ingresses and services."""

from __future__ import annotations

from apiserver_stub.admission import AdmissionPlugin
from apiserver_stub.admission.reading import Reader, annotations_of
from apiserver_stub.apimachinery.objects import dig
from apiserver_stub.apimachinery.status import qualified
from apiserver_stub.verbs.admission import AdmissionRequest
from nodeagent.base import identity

_GROUP = identity.current().group("networking")
_DEFAULT_CLASS = f"ingressclass.{identity.current().label_domain}/is-default-class"
_OLD_CLASS = identity.current().label("ingress.class")


class DefaultIngressClass(AdmissionPlugin):
    """Gives ingresses without a class the default one (spec: admission.DefaultIngressClass)."""

    name = "DefaultIngressClass"
    resources = (qualified("ingresses", _GROUP),)
    operations = ("CREATE",)

    def __init__(self, reader: Reader) -> None:
        self._reader = reader

    async def admit(self, call: AdmissionRequest) -> None:
        spec = call.obj["spec"] = call.obj.get("spec") or {}
        if spec.get("ingressClassName") is not None or _OLD_CLASS in annotations_of(call.obj):
            return
        every = self._reader.every(f"{_GROUP}/ingressclasses")
        defaults = [item for item in every if annotations_of(item).get(_DEFAULT_CLASS) == "true"]
        if defaults:
            defaults.sort(key=lambda item: str(item["metadata"]["name"]))
            newest = max(defaults, key=lambda item: str(item["metadata"]["creationTimestamp"]))
            spec["ingressClassName"] = newest["metadata"]["name"]


class DenyServiceExternalIPs(AdmissionPlugin):
    """No service takes over addresses that nobody gave it (spec: admission.DenyServiceExternalIPs)."""

    name = "DenyServiceExternalIPs"
    resources = ("services",)

    async def validate(self, call: AdmissionRequest) -> None:
        before = dig(call.old, ("spec", "externalIPs")) or ()
        if not set(dig(call.obj, ("spec", "externalIPs")) or ()).issubset(before):
            raise call.refuse("Use of external IPs is denied by admission control")

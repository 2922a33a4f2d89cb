"""PersistentVolumeClaimResize admission plugin: reject expansion that the storage class does not allow."""

from __future__ import annotations

from typing import Self

from apiserver_stub.admission import AdmissionPlugin
from apiserver_stub.admission.context import AdmissionContext
from apiserver_stub.admission.listers import Lister, annotations_of
from apiserver_stub.apimachinery.objects import Object, dig
from apiserver_stub.apimachinery.resource_lists import read
from apiserver_stub.validation.persistent_volumes import storage_class_annotation
from apiserver_stub.verbs.admission import AdmissionRequest
from nodeagent.base.identity import Identity
from nodeagent.base.quantity import Quantity


class PersistentVolumeClaimResize(AdmissionPlugin):
    """Reject expansion of claims whose storage class does not allow it.

    The validation of the kind rejects the expansion of unbound claims earlier.

    spec: admission.PersistentVolumeClaimResize
    """

    name = "PersistentVolumeClaimResize"
    order = 2400
    enabled_by_default = True
    resources = ("persistentvolumeclaims",)
    operations = ("UPDATE",)

    def __init__(self, lister: Lister, identity: Identity) -> None:
        self._lister = lister
        self._classes = identity.group("storage") + "/storageclasses"
        self._old_class = storage_class_annotation(identity)

    @classmethod
    async def create(cls, context: AdmissionContext) -> Self:
        return cls(context.lister, context.identity)

    async def validate(self, call: AdmissionRequest) -> None:
        old = call.old or {}
        if _size(call.obj) <= _size(old):
            return
        name = annotations_of(old).get(self._old_class) or dig(old, ("spec", "storageClassName")) or ""
        found = self._lister.find(self._classes, name) if name else None
        if not (found or {}).get("allowVolumeExpansion"):
            text = "only dynamically provisioned pvc can be resized and the storageclass that provisions the pvc "
            raise call.forbidden(f"{text}must support resize")


def _size(claim: Object) -> Quantity:
    return read(dig(claim, ("spec", "resources", "requests"))).get("storage", Quantity())

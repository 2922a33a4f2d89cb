"""StorageObjectInUseProtection admission plugin: add finalizers that protect volumes, claims and attributes classes."""

from __future__ import annotations

from typing import Self

from apiserver_stub.admission import AdmissionContext, AdmissionPlugin
from apiserver_stub.apimachinery.status import qualified
from apiserver_stub.verbs.admission import AdmissionRequest
from nodeagent.base.identity import Identity


def protection_finalizers(identity: Identity) -> dict[str, str]:
    """Return the finalizer of each protected resource."""
    return {
        "persistentvolumes": identity.label("pv-protection"),
        "persistentvolumeclaims": identity.label("pvc-protection"),
        "volumeattributesclasses": identity.label("vac-protection"),
    }


class StorageObjectInUseProtection(AdmissionPlugin):
    """Add the finalizers that protect objects in use (spec: admission.StorageObjectInUseProtection)."""

    name = "StorageObjectInUseProtection"
    order = 2200
    enabled_by_default = True
    operations = ("CREATE",)

    def __init__(self, identity: Identity) -> None:
        self._finalizers = protection_finalizers(identity)
        classes = qualified("volumeattributesclasses", identity.group("storage"))
        self.resources = ("persistentvolumes", "persistentvolumeclaims", classes)

    @classmethod
    async def create(cls, context: AdmissionContext) -> Self:
        return cls(context.identity)

    async def admit(self, call: AdmissionRequest) -> None:
        metadata, finalizer = call.obj["metadata"], self._finalizers[call.resource.plural]
        given = metadata.get("finalizers") or []
        if finalizer not in given:
            metadata["finalizers"] = [*given, finalizer]

"""StorageObjectInUseProtection admission plugin: add the finalizers that protect volumes and claims in use."""

from __future__ import annotations

from apiserver_stub.admission import AdmissionPlugin
from apiserver_stub.verbs.admission import AdmissionRequest
from nodeagent.base import identity

PROTECTION = {
    "persistentvolumes": identity.current().label("pv-protection"),
    "persistentvolumeclaims": identity.current().label("pvc-protection"),
}
"""The finalizer by resource."""


class StorageObjectInUseProtection(AdmissionPlugin):
    """Add the finalizers that protect volumes and claims in use (spec: admission.StorageObjectInUseProtection)."""

    name = "StorageObjectInUseProtection"
    order = 2200
    enabled_by_default = True
    resources = tuple(PROTECTION)
    operations = ("CREATE",)

    async def admit(self, call: AdmissionRequest) -> None:
        metadata, finalizer = call.obj["metadata"], PROTECTION[call.resource.plural]
        given = metadata.get("finalizers") or []
        if finalizer not in given:
            metadata["finalizers"] = [*given, finalizer]

"""DefaultStorageClass admission plugin: set the latest default storage class of new claims without a class."""

from __future__ import annotations

from typing import Self

from apiserver_stub.admission import AdmissionPlugin
from apiserver_stub.admission.context import AdmissionContext
from apiserver_stub.admission.listers import Lister, annotations_of
from apiserver_stub.apimachinery.objects import Object
from apiserver_stub.verbs.admission import AdmissionRequest
from nodeagent.base import identity

_CLASSES = identity.current().group("storage") + "/storageclasses"
_LABEL_DOMAIN = identity.current().label_domain
_DEFAULT_CLASS = tuple(f"{prefix}.{_LABEL_DOMAIN}/is-default-class" for prefix in ("storageclass", "storageclass.beta"))
_OLD_CLASS = f"volume.beta.{_LABEL_DOMAIN}/storage-class"


class DefaultStorageClass(AdmissionPlugin):
    """Set the latest default storage class of new claims without a class (spec: admission.DefaultStorageClass)."""

    name = "DefaultStorageClass"
    order = 2100
    enabled_by_default = True
    resources = ("persistentvolumeclaims",)
    operations = ("CREATE",)

    def __init__(self, lister: Lister) -> None:
        self._lister = lister

    @classmethod
    async def create(cls, context: AdmissionContext) -> Self:
        return cls(context.lister)

    async def admit(self, call: AdmissionRequest) -> None:
        spec = call.obj["spec"] = call.obj.get("spec") or {}
        if spec.get("storageClassName") is not None or _OLD_CLASS in annotations_of(call.obj):
            return
        if defaults := [item for item in self._lister.every(_CLASSES) if _is_default(item)]:
            defaults.sort(key=lambda item: str(item["metadata"]["name"]))
            latest = max(defaults, key=lambda item: str(item["metadata"]["creationTimestamp"]))
            spec["storageClassName"] = latest["metadata"]["name"]


def _is_default(storage_class: Object) -> bool:
    return any(annotations_of(storage_class).get(name) == "true" for name in _DEFAULT_CLASS)

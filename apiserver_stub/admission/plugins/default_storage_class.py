"""DefaultStorageClass admission plugin: set the latest default storage class of new claims without a class."""

from __future__ import annotations

from typing import Self

from apiserver_stub.admission import AdmissionPlugin
from apiserver_stub.admission.context import AdmissionContext
from apiserver_stub.admission.listers import Lister, annotations_of
from apiserver_stub.apimachinery.objects import Object
from apiserver_stub.validation.persistent_volumes import storage_class_annotation
from apiserver_stub.verbs.admission import AdmissionRequest
from nodeagent.base.identity import Identity


class DefaultStorageClass(AdmissionPlugin):
    """Set the latest default storage class of new claims without a class (spec: admission.DefaultStorageClass)."""

    name = "DefaultStorageClass"
    order = 2100
    enabled_by_default = True
    resources = ("persistentvolumeclaims",)
    operations = ("CREATE",)

    def __init__(self, lister: Lister, identity: Identity) -> None:
        self._lister = lister
        self._classes = identity.group("storage") + "/storageclasses"
        prefixes = ("storageclass", "storageclass.beta")
        self._default_annotations = tuple(identity.label("is-default-class", prefix) for prefix in prefixes)
        self._old_class = storage_class_annotation(identity)

    @classmethod
    async def create(cls, context: AdmissionContext) -> Self:
        return cls(context.lister, context.identity)

    async def admit(self, call: AdmissionRequest) -> None:
        spec = call.obj["spec"] = call.obj.get("spec") or {}
        if spec.get("storageClassName") is not None or self._old_class in annotations_of(call.obj):
            return
        if defaults := [item for item in self._lister.every(self._classes) if self._is_default(item)]:
            defaults.sort(key=lambda item: str(item["metadata"]["name"]))
            latest = max(defaults, key=lambda item: str(item["metadata"]["creationTimestamp"]))
            spec["storageClassName"] = latest["metadata"]["name"]

    def _is_default(self, storage_class: Object) -> bool:
        return any(annotations_of(storage_class).get(name) == "true" for name in self._default_annotations)

"""Storage API: StorageClasses, VolumeAttachments, CSI drivers and CSI nodes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from apiserver_stub.apimachinery.objects import Object, dig
from apiserver_stub.apimachinery.status import Cause
from apiserver_stub.defaulting.storage import ATTACHMENT, DRIVER, DRIVER_WITH_SELINUX_MOUNT, STORAGE_CLASS
from apiserver_stub.kinds.columns import AGE, NAME, at, name
from apiserver_stub.kinds.registry import Column, Resource, Strategy, Subresource
from apiserver_stub.validation.csi import (
    validate_driver,
    validate_driver_update,
    validate_node_drivers,
    validate_node_drivers_update,
)
from apiserver_stub.validation.metadata import MetadataRules
from apiserver_stub.validation.storage_classes import (
    storage_class_warnings,
    validate_storage_class,
    validate_storage_class_update,
)
from apiserver_stub.validation.volume_attachments import validate_attachment, validate_attachment_update

if TYPE_CHECKING:
    from apiserver_stub.kinds.settings import KindSettings
    from nodeagent.base.gates import FeatureGates
    from nodeagent.base.identity import Identity

_DEFAULT_PREFIXES = ("storageclass", "storageclass.beta")
_GENERATION_FIELDS = ("tokenRequests", "requiresRepublish", "seLinuxMount")
"""Fields of a CSI driver whose changes increment its generation; new drivers have none."""


class DriverStrategy(Strategy):
    """CSI drivers (spec: gate.SELinuxMountReadWriteOncePod)."""

    def __init__(self, gates: FeatureGates) -> None:
        self._selinux_mount = gates.enabled("SELinuxMountReadWriteOncePod")

    def default(self, new: Object) -> None:
        (DRIVER_WITH_SELINUX_MOUNT if self._selinux_mount else DRIVER).apply(new)

    def prepare_create(self, new: Object) -> None:
        if not self._selinux_mount:
            new["spec"].pop("seLinuxMount", None)

    def prepare_update(self, new: Object, old: Object, subresource: str) -> None:
        super().prepare_update(new, old, subresource)
        spec, before = new["spec"], old.get("spec") or {}
        if not self._selinux_mount and before.get("seLinuxMount") is None:
            spec.pop("seLinuxMount", None)
        if any(spec.get(name) != before.get(name) for name in _GENERATION_FIELDS):
            new["metadata"]["generation"] = (old["metadata"].get("generation") or 0) + 1

    def validate(self, new: Object) -> list[Cause]:
        return validate_driver(new["spec"], selinux_mount=self._selinux_mount)

    def validate_update(self, new: Object, old: Object, subresource: str) -> list[Cause]:
        return validate_driver_update(new["spec"], old.get("spec") or {}, selinux_mount=self._selinux_mount)


class CsiNodeStrategy(Strategy):
    """CSINodes: the CSI drivers of a node."""

    def validate(self, new: Object) -> list[Cause]:
        return validate_node_drivers(_node_drivers(new))

    def validate_update(self, new: Object, old: Object, subresource: str) -> list[Cause]:
        return validate_node_drivers_update(_node_drivers(new), _node_drivers(old))


class AttachmentStrategy(Strategy):
    """VolumeAttachments; the spec is immutable, the attacher reports the status."""

    status_keeps = ("labels", "annotations", "finalizers", "ownerReferences", "deletionTimestamp", "selfLink")

    def __init__(self, identity: Identity) -> None:
        self._identity = identity

    def default(self, new: Object) -> None:
        ATTACHMENT.apply(new)

    def prepare_create(self, new: Object) -> None:
        new["status"] = {"attached": False}

    def validate(self, new: Object) -> list[Cause]:
        return validate_attachment(new, self._identity)

    def validate_update(self, new: Object, old: Object, subresource: str) -> list[Cause]:
        return validate_attachment_update(new, old, self._identity)


class StorageClassStrategy(Strategy):
    """StorageClasses; most fields are immutable."""

    def __init__(self, identity: Identity) -> None:
        self._identity = identity

    def default(self, new: Object) -> None:
        STORAGE_CLASS.apply(new)

    def validate(self, new: Object) -> list[Cause]:
        return validate_storage_class(new)

    def validate_update(self, new: Object, old: Object, subresource: str) -> list[Cause]:
        return validate_storage_class(new) + validate_storage_class_update(new, old)

    def warnings(self, new: Object, old: Object | None) -> list[str]:
        return storage_class_warnings(new, self._identity)


def resources(settings: KindSettings) -> list[Resource]:
    group = settings.identity.group("storage")
    default_annotations = tuple(settings.identity.label("is-default-class", name) for name in _DEFAULT_PREFIXES)
    return [
        Resource(
            group,
            "v1",
            "StorageClass",
            "storageclasses",
            namespaced=False,
            short_names=("sc",),
            strategy=StorageClassStrategy(settings.identity),
            columns=(
                replace(NAME, cell=partial(_class_name, default_annotations)),
                at("Provisioner", "provisioner"),
                at("ReclaimPolicy", "reclaimPolicy", default="Delete"),
                at("VolumeBindingMode", "volumeBindingMode", default="Immediate"),
                at("AllowVolumeExpansion", "allowVolumeExpansion", default=False),
                AGE,
            ),
            returns_deleted=True,
        ),
        Resource(
            group,
            "v1",
            "CSINode",
            "csinodes",
            namespaced=False,
            strategy=CsiNodeStrategy(),
            metadata_rules=MetadataRules(whole=2, changes=0),
            columns=(NAME, Column("Drivers", _drivers, type="integer"), AGE),
            unconditional_update=False,
            returns_deleted=True,
        ),
        Resource(
            group,
            "v1",
            "CSIDriver",
            "csidrivers",
            namespaced=False,
            metadata_rules=MetadataRules(whole=0),
            strategy=DriverStrategy(settings.gates),
            columns=(
                NAME,
                at("AttachRequired", "spec.attachRequired", type="boolean", default=True),
                at("PodInfoOnMount", "spec.podInfoOnMount", type="boolean", default=False),
                at("StorageCapacity", "spec.storageCapacity", type="boolean", default=False),
                Column("TokenRequests", _audiences),
                at("RequiresRepublish", "spec.requiresRepublish", type="boolean", default=False),
                Column("Modes", _lifecycles),
                AGE,
            ),
            unconditional_update=False,
            returns_deleted=True,
        ),
        Resource(
            group,
            "v1",
            "VolumeAttachment",
            "volumeattachments",
            namespaced=False,
            metadata_rules=MetadataRules(whole=2, changes=0),
            subresource_rules=MetadataRules(whole=2, changes=0),
            reset_fields={"status": ("spec", "metadata")},
            strategy=AttachmentStrategy(settings.identity),
            subresources=(Subresource("status"),),
            columns=(
                NAME,
                at("Attacher", "spec.attacher", format="name"),
                at("PV", "spec.source.persistentVolumeName", default=""),
                at("Node", "spec.nodeName"),
                at("Attached", "status.attached", type="boolean", default=False),
                AGE,
            ),
            unconditional_update=False,
            returns_deleted=True,
        ),
    ]


def _class_name(default_annotations: Sequence[str], obj: Object) -> str:
    """Return the name of a storage class, marked if it is the default."""
    annotations = obj["metadata"].get("annotations") or {}
    is_default = any(annotations.get(key) == "true" for key in default_annotations)
    return f"{name(obj)} (default)" if is_default else name(obj)


def _audiences(driver: Object) -> str:
    requests = dig(driver, ("spec", "tokenRequests"))
    return "<unset>" if requests is None else ",".join(item.get("audience", "") for item in requests)


def _lifecycles(driver: Object) -> str:
    return ",".join(dig(driver, ("spec", "volumeLifecycleModes")) or ()) or "<none>"


def _drivers(obj: Object) -> int:
    return len(_node_drivers(obj))


def _node_drivers(obj: Object) -> list[Object]:
    drivers: list[Object] = dig(obj, ("spec", "drivers")) or []
    return drivers

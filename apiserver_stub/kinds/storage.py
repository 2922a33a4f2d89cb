"""Storage API: StorageClasses, VolumeAttachments, CSI drivers and CSI nodes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from apiserver_stub.apimachinery.objects import Object, dig, next_generation
from apiserver_stub.apimachinery.status import Cause
from apiserver_stub.defaulting.storage import ATTACHMENT, STORAGE_CLASS, driver_defaults
from apiserver_stub.kinds.columns import AGE, NAME, at, name
from apiserver_stub.kinds.registry import Column, Resource, Strategy, Subresource
from apiserver_stub.validation.csi import (
    DriverOptions,
    driver_warnings,
    validate_driver,
    validate_driver_update,
    validate_node_drivers,
    validate_node_drivers_update,
)
from apiserver_stub.validation.metadata import MetadataRules, repetitions
from apiserver_stub.validation.storage_classes import (
    storage_class_warnings,
    validate_storage_class,
    validate_storage_class_update,
)
from apiserver_stub.validation.volume_attachments import validate_attachment, validate_attachment_update
from nodeagent.base.release import OLDEST, Release

if TYPE_CHECKING:
    from apiserver_stub.kinds.settings import KindSettings
    from nodeagent.base.gates import FeatureGates
    from nodeagent.base.identity import Identity

_DEFAULT_PREFIXES = ("storageclass", "storageclass.beta")
_GENERATION_FIELDS = ("tokenRequests", "requiresRepublish", "seLinuxMount")
"""Fields of a CSI driver whose changes increment its generation before release 1.33; new drivers have none."""
_COUNTS_ALL_FIELDS = Release(1, 33)
_GATED_FIELDS = {
    "seLinuxMount": "SELinuxMountReadWriteOncePod",
    "nodeAllocatableUpdatePeriodSeconds": "MutableCSINodeAllocatableCount",
    "serviceAccountTokenInSecrets": "CSIServiceAccountTokenSecrets",
    "preventPodSchedulingIfMissing": "VolumeLimitScaling",
}
"""Fields of a CSI driver that exist only with a feature gate."""
_DEFAULTED = ("seLinuxMount", "preventPodSchedulingIfMissing")
_LIMITS_IN_DRIVERS = Release(1, 36)
"""First release whose drivers have the field of the gate ``VolumeLimitScaling``."""


class DriverStrategy(Strategy):
    """CSI drivers.

    spec: gate.SELinuxMountReadWriteOncePod, gate.MutableCSINodeAllocatableCount, gate.CSIServiceAccountTokenSecrets
    """

    def __init__(self, gates: FeatureGates, release: Release = OLDEST) -> None:
        self._release = release
        self._disabled = tuple(name for name in _GATED_FIELDS if not self._has(gates, name))
        self._defaults = driver_defaults(*(name for name in _DEFAULTED if name not in self._disabled))
        self._options = DriverOptions(
            selinux_mount="seLinuxMount" not in self._disabled,
            volume_limits="preventPodSchedulingIfMissing" not in self._disabled,
            release=release,
        )

    def _has(self, gates: FeatureGates, name: str) -> bool:
        exists = name != "preventPodSchedulingIfMissing" or self._release >= _LIMITS_IN_DRIVERS
        return exists and gates.enabled(_GATED_FIELDS[name])

    def default(self, new: Object) -> None:
        self._defaults.apply(new)

    def prepare_create(self, new: Object) -> None:
        for field in self._disabled:
            new["spec"].pop(field, None)

    def prepare_update(self, new: Object, old: Object, subresource: str) -> None:
        super().prepare_update(new, old, subresource)
        spec, before = new["spec"], old.get("spec") or {}
        for field in self._disabled:
            if before.get(field) is None:
                spec.pop(field, None)
        counted = spec.keys() | before.keys() if self._release >= _COUNTS_ALL_FIELDS else _GENERATION_FIELDS
        if any(spec.get(name) != before.get(name) for name in counted):
            new["metadata"]["generation"] = next_generation(old["metadata"])

    def validate(self, new: Object) -> list[Cause]:
        return validate_driver(new["spec"], self._options)

    def validate_update(self, new: Object, old: Object, subresource: str) -> list[Cause]:
        return validate_driver_update(new["spec"], old.get("spec") or {}, self._options)

    def warnings(self, new: Object, old: Object | None) -> list[str]:
        if "serviceAccountTokenInSecrets" in self._disabled:
            return []
        return driver_warnings(new["spec"], None if old is None else old.get("spec") or {})


class CsiNodeStrategy(Strategy):
    """CSINodes: the CSI drivers of a node (spec: gate.MutableCSINodeAllocatableCount)."""

    def __init__(self, gates: FeatureGates, release: Release = OLDEST) -> None:
        self._mutable_count, self._release = gates.enabled("MutableCSINodeAllocatableCount"), release

    def validate(self, new: Object) -> list[Cause]:
        return validate_node_drivers(_node_drivers(new), self._release)

    def validate_update(self, new: Object, old: Object, subresource: str) -> list[Cause]:
        return validate_node_drivers_update(
            _node_drivers(new), _node_drivers(old), self._release, mutable_count=self._mutable_count
        )


class AttachmentStrategy(Strategy):
    """VolumeAttachments; the spec is immutable, the attacher reports the status."""

    status_keeps = ("labels", "annotations", "finalizers", "ownerReferences", "deletionTimestamp", "selfLink")

    def __init__(self, gates: FeatureGates, identity: Identity, release: Release = OLDEST) -> None:
        self._error_codes = gates.enabled("MutableCSINodeAllocatableCount")
        self._identity, self._release = identity, release

    def default(self, new: Object) -> None:
        ATTACHMENT.apply(new)

    def prepare_create(self, new: Object) -> None:
        new["status"] = {"attached": False}

    def prepare_update(self, new: Object, old: Object, subresource: str) -> None:
        super().prepare_update(new, old, subresource)
        if self._error_codes:
            return
        for field in ("attachError", "detachError"):
            error = dig(new, ("status", field))
            if error is not None and dig(old, ("status", field, "errorCode")) is None:
                error.pop("errorCode", None)

    def validate(self, new: Object) -> list[Cause]:
        return validate_attachment(new, self._identity, self._release)

    def validate_update(self, new: Object, old: Object, subresource: str) -> list[Cause]:
        return validate_attachment_update(new, old, self._identity, self._release)


class StorageClassStrategy(Strategy):
    """StorageClasses; most fields are immutable."""

    def __init__(self, identity: Identity, release: Release = OLDEST) -> None:
        self._identity, self._release = identity, release

    def default(self, new: Object) -> None:
        STORAGE_CLASS.apply(new)

    def validate(self, new: Object) -> list[Cause]:
        return validate_storage_class(new)

    def validate_update(self, new: Object, old: Object, subresource: str) -> list[Cause]:
        return validate_storage_class(new) + validate_storage_class_update(new, old, self._release)

    def warnings(self, new: Object, old: Object | None) -> list[str]:
        return storage_class_warnings(new, self._identity)


def resources(settings: KindSettings) -> list[Resource]:
    group, repeated = settings.identity.group("storage"), repetitions(settings.compatibility_version)
    default_annotations = tuple(settings.identity.label("is-default-class", name) for name in _DEFAULT_PREFIXES)
    return [
        Resource(
            group,
            "v1",
            "StorageClass",
            "storageclasses",
            namespaced=False,
            short_names=("sc",),
            strategy=StorageClassStrategy(settings.identity, settings.compatibility_version),
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
            strategy=CsiNodeStrategy(settings.gates, settings.compatibility_version),
            metadata_rules=MetadataRules(whole=repeated, changes=0),
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
            strategy=DriverStrategy(settings.gates, settings.compatibility_version),
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
            metadata_rules=MetadataRules(whole=repeated, changes=0),
            subresource_rules=MetadataRules(whole=repeated, changes=0),
            reset_fields={"status": ("spec", "metadata")},
            strategy=AttachmentStrategy(settings.gates, settings.identity, settings.compatibility_version),
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

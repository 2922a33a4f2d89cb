"""What a node agent reads and writes about volumes: CSI nodes and drivers, volume attachments, claims, volumes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from apiserver_stub.objects import Object, dig
from apiserver_stub.resources.columns import AGE, NAME, at
from apiserver_stub.resources.registry import Column, Resource, Strategy, Subresource
from apiserver_stub.status import Cause, forbidden_value, invalid_value, not_supported, required
from apiserver_stub.strategic import CONDITIONS, CSI_NODE
from nodeagent.base import identity

if TYPE_CHECKING:
    from apiserver_stub.options import Options

_GROUP = identity.current().group("storage")
_RECLAIM_POLICIES = ("Delete", "Retain")
_BINDING_MODES = ("Immediate", "WaitForFirstConsumer")


class PendingStrategy(Strategy):
    """Volumes and claims begin Pending."""

    def prepare_create(self, new: Object) -> None:
        new["status"] = {"phase": "Pending"}


class StorageClassStrategy(Strategy):
    """Who provides the volumes, and how, stays."""

    def default(self, new: Object) -> None:
        new["reclaimPolicy"] = new.get("reclaimPolicy") or "Delete"
        new["volumeBindingMode"] = new.get("volumeBindingMode") or "Immediate"

    def validate(self, new: Object) -> list[Cause]:
        causes = [] if new.get("provisioner") else [required("provisioner")]
        for member, values in (("reclaimPolicy", _RECLAIM_POLICIES), ("volumeBindingMode", _BINDING_MODES)):
            if new[member] not in values:
                causes.append(not_supported(member, new[member], values))
        return causes

    def validate_update(self, new: Object, old: Object, subresource: str) -> list[Cause]:
        causes = self.validate(new)
        if (new.get("parameters") or {}) != (old.get("parameters") or {}):
            causes.append(forbidden_value("parameters", "updates to parameters are forbidden."))
        for member in ("provisioner", "reclaimPolicy"):
            if new.get(member) != old.get(member):
                causes.append(forbidden_value(member, f"updates to {member} are forbidden."))
        if new["volumeBindingMode"] != old.get("volumeBindingMode"):
            causes.append(invalid_value("volumeBindingMode", new["volumeBindingMode"], "field is immutable"))
        return causes


def resources(options: Options) -> list[Resource]:
    return [
        Resource(
            _GROUP,
            "v1",
            "StorageClass",
            "storageclasses",
            namespaced=False,
            short_names=("sc",),
            strategy=StorageClassStrategy(),
            columns=(
                NAME,
                at("Provisioner", "provisioner"),
                at("ReclaimPolicy", "reclaimPolicy", default="Delete"),
                at("VolumeBindingMode", "volumeBindingMode", default="Immediate"),
                at("AllowVolumeExpansion", "allowVolumeExpansion", type="boolean", default=False),
                AGE,
            ),
            returns_deleted=True,
        ),
        Resource(
            _GROUP,
            "v1",
            "CSINode",
            "csinodes",
            namespaced=False,
            columns=(NAME, Column("Drivers", _drivers, type="integer"), AGE),
            patch_schema=CSI_NODE,
            unconditional_update=False,
            returns_deleted=True,
        ),
        Resource(
            _GROUP,
            "v1",
            "CSIDriver",
            "csidrivers",
            namespaced=False,
            columns=(
                NAME,
                at("AttachRequired", "spec.attachRequired", type="boolean", default=True),
                at("PodInfoOnMount", "spec.podInfoOnMount", type="boolean", default=False),
                at("StorageCapacity", "spec.storageCapacity", type="boolean", default=False),
                AGE,
            ),
            unconditional_update=False,
            returns_deleted=True,
        ),
        Resource(
            _GROUP,
            "v1",
            "VolumeAttachment",
            "volumeattachments",
            namespaced=False,
            subresources=(Subresource("status"),),
            columns=(
                NAME,
                at("Attacher", "spec.attacher"),
                at("PV", "spec.source.persistentVolumeName"),
                at("Node", "spec.nodeName"),
                at("Attached", "status.attached", type="boolean", default=False),
                AGE,
            ),
            unconditional_update=False,
            returns_deleted=True,
        ),
        Resource(
            "",
            "v1",
            "PersistentVolume",
            "persistentvolumes",
            namespaced=False,
            short_names=("pv",),
            strategy=PendingStrategy(),
            subresources=(Subresource("status"),),
            columns=(
                NAME,
                at("Capacity", "spec.capacity.storage"),
                Column("Access Modes", _modes),
                at("Reclaim Policy", "spec.persistentVolumeReclaimPolicy", default="Retain"),
                at("Status", "status.phase"),
                AGE,
            ),
            returns_deleted=True,
        ),
        Resource(
            "",
            "v1",
            "PersistentVolumeClaim",
            "persistentvolumeclaims",
            short_names=("pvc",),
            strategy=PendingStrategy(),
            subresources=(Subresource("status"),),
            columns=(
                NAME,
                at("Status", "status.phase"),
                at("Volume", "spec.volumeName", default=""),
                at("Capacity", "status.capacity.storage", default=""),
                Column("Access Modes", _modes),
                at("StorageClass", "spec.storageClassName", default=""),
                AGE,
            ),
            patch_schema=CONDITIONS,
            returns_deleted=True,
        ),
    ]


_SHORT_MODES = {"ReadWriteOnce": "RWO", "ReadOnlyMany": "ROX", "ReadWriteMany": "RWX", "ReadWriteOncePod": "RWOP"}


def _modes(obj: Object) -> str:
    return ",".join(_SHORT_MODES.get(mode, mode) for mode in dig(obj, ("spec", "accessModes")) or ())


def _drivers(obj: Object) -> int:
    return len(dig(obj, ("spec", "drivers")) or ())

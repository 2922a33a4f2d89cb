"""What a node agent reads and writes about storage: its classes, CSI nodes and drivers, attachments."""

from __future__ import annotations

from typing import TYPE_CHECKING

from apiserver_stub.objects import Object, dig
from apiserver_stub.resources.columns import AGE, NAME, at
from apiserver_stub.resources.registry import Column, Resource, Strategy, Subresource
from apiserver_stub.status import Cause, forbidden_value, invalid_value, not_supported, required
from apiserver_stub.validation.metadata import MetadataRules
from nodeagent.base import identity

if TYPE_CHECKING:
    from apiserver_stub.options import Options
    from nodeagent.base.gates import FeatureGates

_GROUP = identity.current().group("storage")
_RECLAIM_POLICIES = ("Delete", "Retain")
_DRIVER_DEFAULTS = {
    "attachRequired": True,
    "podInfoOnMount": False,
    "storageCapacity": False,
    "fsGroupPolicy": "ReadWriteOnceWithFSType",
    "requiresRepublish": False,
}
_BINDING_MODES = ("Immediate", "WaitForFirstConsumer")


class DriverStrategy(Strategy):
    """What a driver leaves open has a default; how its volumes attach and live stays."""

    def __init__(self, gates: FeatureGates) -> None:
        self._gates = gates

    def default(self, new: Object) -> None:
        spec = new.setdefault("spec", {})
        for member, value in _DRIVER_DEFAULTS.items():
            if spec.get(member) is None:
                spec[member] = value
        if self._gates.enabled("SELinuxMountReadWriteOncePod"):
            spec.setdefault("seLinuxMount", False)
        spec["volumeLifecycleModes"] = spec.get("volumeLifecycleModes") or ["Persistent"]

    def validate_update(self, new: Object, old: Object, subresource: str) -> list[Cause]:
        after, before = new["spec"], old.get("spec") or {}
        return [
            invalid_value(f"spec.{member}", after.get(member), "field is immutable")
            for member in ("attachRequired", "volumeLifecycleModes")
            if member in before and after.get(member) != before[member]
        ]


class AttachmentStrategy(Strategy):
    """Not attached until somebody says so; what is to be attached stays."""

    status_keeps = ("labels", "annotations", "finalizers", "ownerReferences", "deletionTimestamp", "selfLink")

    def prepare_create(self, new: Object) -> None:
        new["status"] = {"attached": False}

    def validate_update(self, new: Object, old: Object, subresource: str) -> list[Cause]:
        if new.get("spec") == old.get("spec"):
            return []
        return [invalid_value("spec", "", "field is immutable")]


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
                at("AllowVolumeExpansion", "allowVolumeExpansion", default=False),
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
            metadata_rules=MetadataRules(whole=2, changes=0),
            columns=(NAME, Column("Drivers", _drivers, type="integer"), AGE),
            unconditional_update=False,
            returns_deleted=True,
        ),
        Resource(
            _GROUP,
            "v1",
            "CSIDriver",
            "csidrivers",
            namespaced=False,
            metadata_rules=MetadataRules(whole=0),
            strategy=DriverStrategy(options.gates),
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
            _GROUP,
            "v1",
            "VolumeAttachment",
            "volumeattachments",
            namespaced=False,
            metadata_rules=MetadataRules(whole=2, changes=0),
            subresource_rules=MetadataRules(whole=2, changes=0),
            strategy=AttachmentStrategy(),
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
    ]


def _audiences(driver: Object) -> str:
    asked = dig(driver, ("spec", "tokenRequests"))
    return "<unset>" if asked is None else ",".join(item.get("audience", "") for item in asked)


def _lifecycles(driver: Object) -> str:
    return ",".join(dig(driver, ("spec", "volumeLifecycleModes")) or ()) or "<none>"


def _drivers(obj: Object) -> int:
    return len(dig(obj, ("spec", "drivers")) or ())

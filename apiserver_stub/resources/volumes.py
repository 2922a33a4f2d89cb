"""Persistent volumes and the claims on them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from apiserver_stub import objects
from apiserver_stub.objects import Object, dig
from apiserver_stub.resources.columns import AGE, NAME, at
from apiserver_stub.resources.registry import Column, Resource, Strategy, Subresource
from apiserver_stub.status import Cause, forbidden_value, invalid_value, not_supported, required
from apiserver_stub.validation.metadata import MetadataRules
from apiserver_stub.validation.names import subdomain_problems
from nodeagent.base import identity
from nodeagent.base.quantity import Quantity

if TYPE_CHECKING:
    from apiserver_stub.options import Options
    from nodeagent.base.gates import FeatureGates

_SHORT_MODES = {"ReadWriteOnce": "RWO", "ReadOnlyMany": "ROX", "ReadWriteMany": "RWX", "ReadWriteOncePod": "RWOP"}
_ALONE = "ReadWriteOncePod"
_RECLAIM_POLICIES = ("Delete", "Recycle", "Retain")
_VOLUME_MODES = ("Block", "Filesystem")
_NOT_SOURCES = frozenset(
    [
        "accessModes",
        "capacity",
        "claimRef",
        "mountOptions",
        "nodeAffinity",
        "persistentVolumeReclaimPolicy",
        "storageClassName",
        "volumeAttributesClassName",
        "volumeMode",
    ]
)
"""Members of a volume's specification that do not say where its data is."""


class VolumeStrategy(Strategy):
    """Where the data is stays; how the volume came to its phase is dated where the gate says so."""

    def __init__(self, gates: FeatureGates) -> None:
        self._gates = gates

    def default(self, new: Object) -> None:
        spec = new.setdefault("spec", {})
        spec["persistentVolumeReclaimPolicy"] = spec.get("persistentVolumeReclaimPolicy") or "Retain"
        spec["volumeMode"] = spec.get("volumeMode") or "Filesystem"
        if isinstance(path := spec.get("hostPath"), dict):
            path.setdefault("type", "")

    def prepare_create(self, new: Object) -> None:
        _drop_class(self._gates, new)
        new["status"] = {"phase": "Pending"}
        self._date(new["status"])

    def prepare_update(self, new: Object, old: Object, subresource: str) -> None:
        super().prepare_update(new, old, subresource)
        _drop_class(self._gates, new, old)
        status = new.get("status")
        if subresource == "status" and status and status.get("phase") != dig(old, ("status", "phase")):
            self._date(status)

    def _date(self, status: Object) -> None:
        if self._gates.enabled("PersistentVolumeLastPhaseTransitionTime"):
            status["lastPhaseTransitionTime"] = objects.now()

    def validate(self, new: Object) -> list[Cause]:
        spec = new.get("spec") or {}
        causes = _mode_causes(spec, "")
        capacity = spec.get("capacity") or {}
        if not capacity:
            causes.append(required("spec.capacity"))
        if list(capacity) != ["storage"]:
            shown = "core.ResourceList(nil)" if not capacity else ", ".join(sorted(capacity))
            text = f'Unsupported value: {shown}: supported values: "storage"'
            causes.append(Cause("FieldValueNotSupported", text, "spec.capacity"))
        elif not _positive(capacity["storage"]):
            causes.append(_not_positive("spec.capacity[storage]", capacity["storage"]))
        sources = sorted(spec.keys() - _NOT_SOURCES)
        if not sources:
            causes.append(required("spec", "must specify a volume type"))
        causes += [forbidden_value(f"spec.{name}", "may not specify more than 1 volume type") for name in sources[1:]]
        policy = spec["persistentVolumeReclaimPolicy"]
        if policy not in _RECLAIM_POLICIES:
            causes.append(not_supported("spec.persistentVolumeReclaimPolicy", policy, _RECLAIM_POLICIES))
        return causes + _class_causes(spec) + _volume_mode_causes(spec)

    def validate_update(self, new: Object, old: Object, subresource: str) -> list[Cause]:
        if subresource:
            return []
        causes, after, before = self.validate(new), new["spec"], old.get("spec") or {}
        if _sources(after) != _sources(before):
            detail = "spec.persistentvolumesource is immutable after creation"
            causes.append(forbidden_value("spec.persistentvolumesource", detail))
        if before.get("volumeMode") and after["volumeMode"] != before["volumeMode"]:
            causes.append(invalid_value("volumeMode", after["volumeMode"], "field is immutable"))
        return causes


class ClaimStrategy(Strategy):
    """A claim stays as it was made: it may be bound once, and then grow."""

    def __init__(self, gates: FeatureGates) -> None:
        self._gates = gates

    def default(self, new: Object) -> None:
        spec = new.setdefault("spec", {})
        spec["volumeMode"] = spec.get("volumeMode") or "Filesystem"
        spec.setdefault("resources", {})

    def prepare_create(self, new: Object) -> None:
        _drop_class(self._gates, new)
        new["status"] = {"phase": "Pending"}

    def prepare_update(self, new: Object, old: Object, subresource: str) -> None:
        super().prepare_update(new, old, subresource)
        _drop_class(self._gates, new, old)

    def validate(self, new: Object) -> list[Cause]:
        spec = new["spec"]
        causes = _mode_causes(spec, "at least 1 access mode is required")
        wanted = dig(spec, ("resources", "requests", "storage"))
        if wanted is None:
            causes.append(required("spec.resources[storage]"))
        elif not _positive(wanted):
            causes.append(_not_positive("spec.resources[storage]", wanted))
        return causes + _class_causes(spec) + _volume_mode_causes(spec)

    def validate_update(self, new: Object, old: Object, subresource: str) -> list[Cause]:
        if subresource:
            return []
        causes, after, before = self.validate(new), new["spec"], old.get("spec") or {}
        bound = dig(new, ("status", "phase")) == "Bound"
        if _fixed(after, before, bound=bound) != _fixed(before, before, bound=bound):
            detail = "spec is immutable after creation except resources.requests and volumeAttributesClassName"
            causes.append(forbidden_value("spec", f"{detail} for bound claims"))
        sizes = [dig(spec, ("resources", "requests", "storage")) for spec in (after, before)]
        if all(sizes) and Quantity.parse(str(sizes[0])) < Quantity.parse(str(sizes[1])):
            detail = "field can not be less than previous value"
            causes.append(forbidden_value("spec.resources.requests.storage", detail))
        return causes


def resources(options: Options) -> list[Resource]:
    return [
        Resource(
            "",
            "v1",
            "PersistentVolume",
            "persistentvolumes",
            namespaced=False,
            short_names=("pv",),
            metadata_rules=MetadataRules(whole=2, changes=0),
            strategy=VolumeStrategy(options.gates),
            subresources=(Subresource("status"),),
            columns=(
                NAME,
                at("Capacity", "spec.capacity.storage", default="0"),
                Column("Access Modes", lambda volume: _modes(dig(volume, ("spec", "accessModes")))),
                at("Reclaim Policy", "spec.persistentVolumeReclaimPolicy"),
                Column("Status", _phase),
                Column("Claim", _claim),
                Column("StorageClass", _class),
                at("VolumeAttributesClass", "spec.volumeAttributesClassName", default="<unset>"),
                at("Reason", "status.reason", default=""),
                AGE,
                at("VolumeMode", "spec.volumeMode", wide=True, default="<unset>"),
            ),
            returns_deleted=True,
        ),
        Resource(
            "",
            "v1",
            "PersistentVolumeClaim",
            "persistentvolumeclaims",
            short_names=("pvc",),
            metadata_rules=MetadataRules(whole=2),
            strategy=ClaimStrategy(options.gates),
            subresources=(Subresource("status"),),
            columns=(
                NAME,
                Column("Status", _phase),
                at("Volume", "spec.volumeName", default=""),
                Column("Capacity", _bound_capacity),
                Column("Access Modes", _bound_modes),
                Column("StorageClass", _class),
                at("VolumeAttributesClass", "spec.volumeAttributesClassName", default="<unset>"),
                AGE,
                at("VolumeMode", "spec.volumeMode", wide=True, default="<unset>"),
            ),
            returns_deleted=True,
        ),
    ]


# Rules


def _drop_class(gates: FeatureGates, new: Object, old: Object | None = None) -> None:
    """Drop what the gate takes away, unless it is there already."""
    member = "volumeAttributesClassName"
    if not gates.enabled("VolumeAttributesClass") and not dig(old or {}, ("spec", member)):
        new["spec"].pop(member, None)


def _mode_causes(spec: Object, detail: str) -> list[Cause]:
    modes = spec.get("accessModes") or []
    if not modes:
        return [required("spec.accessModes", detail)]
    known = sorted(_SHORT_MODES)
    causes = [not_supported("spec.accessModes", mode, known) for mode in modes if mode not in known]
    if _ALONE in modes and len(modes) > 1:
        causes.append(forbidden_value("spec.accessModes", f"may not use {_ALONE} with other access modes"))
    return causes


def _class_causes(spec: Object) -> list[Cause]:
    if not (name := spec.get("storageClassName")):
        return []
    return [invalid_value("spec.storageClassName", name, problem) for problem in subdomain_problems(name)]


def _volume_mode_causes(spec: Object) -> list[Cause]:
    mode = spec["volumeMode"]
    return [] if mode in _VOLUME_MODES else [not_supported("spec.volumeMode", mode, _VOLUME_MODES)]


def _positive(amount: Any) -> bool:
    return Quantity.parse(str(amount)) > Quantity()


def _not_positive(field: str, amount: Any) -> Cause:
    return invalid_value(field, str(amount), "must be greater than zero")


def _sources(spec: Object) -> Object:
    """Return where the data of a volume is; a secret for growing it may come later."""
    found = {name: value for name, value in spec.items() if name not in _NOT_SOURCES}
    if isinstance(csi := found.get("csi"), dict):
        found["csi"] = {name: value for name, value in csi.items() if name != "controllerExpandSecretRef"}
    return found


def _fixed(spec: Object, before: Object, *, bound: bool) -> Object:
    """Return what no update of a claim may change: it is bound to a volume and given a class once."""
    fixed = {name: value for name, value in spec.items() if name != "volumeAttributesClassName"}
    for name in ("volumeName", "storageClassName"):
        if not before.get(name):
            fixed.pop(name, None)
    if bound and isinstance(resources := fixed.get("resources"), dict):
        requests = {name: value for name, value in (resources.get("requests") or {}).items() if name != "storage"}
        fixed["resources"] = {**resources, "requests": requests}
    return fixed


# Cells


def _modes(modes: Any) -> str:
    return ",".join(short for mode, short in _SHORT_MODES.items() if mode in (modes or ()))


def _phase(obj: Object) -> str:
    if obj["metadata"].get("deletionTimestamp"):
        return "Terminating"
    return str(dig(obj, ("status", "phase")) or "")


def _claim(volume: Object) -> str:
    reference = dig(volume, ("spec", "claimRef"))
    return f"{reference.get('namespace', '')}/{reference.get('name', '')}" if reference else ""


def _class(obj: Object) -> str:
    annotation = identity.current().label("storage-class", "volume.beta")
    annotations = obj["metadata"].get("annotations") or {}
    return str(annotations.get(annotation) or dig(obj, ("spec", "storageClassName")) or "")


def _bound_capacity(claim: Object) -> str:
    if not dig(claim, ("spec", "volumeName")):
        return ""
    return str(dig(claim, ("status", "capacity", "storage")) or "0")


def _bound_modes(claim: Object) -> str:
    return _modes(dig(claim, ("status", "accessModes"))) if dig(claim, ("spec", "volumeName")) else ""

"""PersistentVolumes and PersistentVolumeClaims."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from apiserver_stub.apimachinery import objects
from apiserver_stub.apimachinery.objects import Object, dig
from apiserver_stub.apimachinery.status import Cause
from apiserver_stub.defaulting.storage import CLAIM, VOLUME
from apiserver_stub.kinds.claim_fields import drop_from_claim_status, settle_sources
from apiserver_stub.kinds.columns import AGE, NAME, at
from apiserver_stub.kinds.registry import Column, Resource, Strategy, Subresource
from apiserver_stub.validation.affinity import validate_node_label_values
from apiserver_stub.validation.claims import (
    ClaimOptions,
    claim_warnings,
    validate_claim,
    validate_claim_status,
    validate_claim_update,
)
from apiserver_stub.validation.metadata import MetadataRules, repetitions
from apiserver_stub.validation.persistent_volumes import (
    storage_class_annotation,
    validate_volume,
    validate_volume_update,
    volume_warnings,
)

if TYPE_CHECKING:
    from apiserver_stub.kinds.settings import KindSettings
    from nodeagent.base.gates import FeatureGates
    from nodeagent.base.identity import Identity
from nodeagent.base.release import OLDEST, Release

_CLASS, _TRANSITION_TIME = "volumeAttributesClassName", "lastPhaseTransitionTime"
_SHORT_MODES = {"ReadWriteOnce": "RWO", "ReadOnlyMany": "ROX", "ReadWriteMany": "RWX", "ReadWriteOncePod": "RWOP"}


_NODES_VALIDATED = Release(1, 34)
"""First release that validates the label values of nodes."""


class VolumeStrategy(Strategy):
    """PersistentVolumes; the source is immutable, phase transitions have a time (spec: gate.PersistentVolume*)."""

    def __init__(self, gates: FeatureGates, identity: Identity, release: Release = OLDEST) -> None:
        self._identity, self._release = identity, release
        self._has_class = gates.enabled("VolumeAttributesClass")
        self._moves = gates.enabled("MutablePVNodeAffinity")
        self._has_transition_time = gates.enabled("PersistentVolumeLastPhaseTransitionTime")

    def default(self, new: Object) -> None:
        VOLUME.apply(new)

    def prepare_create(self, new: Object) -> None:
        new["status"] = {"phase": "Pending"}
        if self._has_transition_time:
            new["status"][_TRANSITION_TIME] = objects.now()

    def prepare_update(self, new: Object, old: Object, subresource: str) -> None:
        super().prepare_update(new, old, subresource)
        if subresource == "status":
            self._set_transition_time(new.setdefault("status", {}), old.get("status") or {})

    def _set_transition_time(self, status: Object, before: Object) -> None:
        """Set or restore the time of the last phase transition."""
        status["phase"] = status.get("phase") or "Pending"
        time, kept = status.get(_TRANSITION_TIME), before.get(_TRANSITION_TIME)
        is_set = _TRANSITION_TIME in status  # A zero time is null.
        if not self._has_transition_time:
            if is_set and not kept:
                del status[_TRANSITION_TIME]
        elif status["phase"] != before.get("phase"):
            if not is_set or time == kept:
                status[_TRANSITION_TIME] = objects.now()
        elif not is_set and kept:
            status[_TRANSITION_TIME] = kept

    def validate(self, new: Object) -> list[Cause]:
        return validate_volume(new, self._identity, attributes_class=self._has_class) + self._validate_nodes(new)

    def validate_update(self, new: Object, old: Object, subresource: str) -> list[Cause]:
        if subresource:
            return []
        in_use = self._has_class or dig(old, ("spec", _CLASS)) is not None
        causes = validate_volume_update(
            new, old, self._identity, gate=self._has_class, attributes_class=in_use, moves=self._moves
        )
        return causes if self._validate_nodes(old) else causes + self._validate_nodes(new) * 2  # As upstream.

    def _validate_nodes(self, volume: Object) -> list[Cause]:
        """Return the errors in the label values of the nodes that have access to *volume*."""
        if self._release < _NODES_VALIDATED:
            return []
        path = ("spec", "nodeAffinity", "required")
        return validate_node_label_values(dig(volume, path), ".".join(path))

    def warnings(self, new: Object, old: Object | None) -> list[str]:
        return volume_warnings(new, self._identity)


class ClaimStrategy(Strategy):
    """PersistentVolumeClaims; after binding, only their size can change."""

    def __init__(self, gates: FeatureGates, identity: Identity, release: Release = OLDEST) -> None:
        self._gates, self._identity = gates, identity
        attributes_class, recovery = (
            gates.enabled(gate) for gate in ("VolumeAttributesClass", "RecoverVolumeExpansionFailure")
        )
        self._options = ClaimOptions(identity, attributes_class, recovery, release)

    def default(self, new: Object) -> None:
        CLAIM.apply(new)

    def prepare_create(self, new: Object) -> None:
        new["status"] = {"phase": "Pending"}
        _drop_class(self._gates, new)
        settle_sources(self._gates, self._identity, new["spec"])

    def prepare_update(self, new: Object, old: Object, subresource: str) -> None:
        super().prepare_update(new, old, subresource)
        if subresource == "status":
            status = new.setdefault("status", {})
            status["phase"] = status.get("phase") or "Pending"
            drop_from_claim_status(self._gates, status, old.get("status") or {})
            return
        _drop_class(self._gates, new, old)
        settle_sources(self._gates, self._identity, new["spec"], old["spec"])

    def validate(self, new: Object) -> list[Cause]:
        return validate_claim(new, self._options)

    def validate_update(self, new: Object, old: Object, subresource: str) -> list[Cause]:
        if subresource:
            return validate_claim_status(new.get("status") or {}, old, self._options)
        return validate_claim_update(new, old, self._options)

    def warnings(self, new: Object, old: Object | None) -> list[str]:
        return claim_warnings(new, self._identity)


def resources(settings: KindSettings) -> list[Resource]:
    class_annotation = storage_class_annotation(settings.identity)
    return [
        Resource(
            "",
            "v1",
            "PersistentVolume",
            "persistentvolumes",
            namespaced=False,
            short_names=("pv",),
            metadata_rules=MetadataRules(whole=2, changes=0),
            strategy=VolumeStrategy(settings.gates, settings.identity, settings.compatibility_version),
            subresources=(Subresource("status"),),
            columns=(
                NAME,
                at("Capacity", "spec.capacity.storage", default="0"),
                Column("Access Modes", lambda volume: _modes(dig(volume, ("spec", "accessModes")))),
                at("Reclaim Policy", "spec.persistentVolumeReclaimPolicy"),
                Column("Status", _phase),
                Column("Claim", _claim),
                Column("StorageClass", partial(_class, class_annotation)),
                at("VolumeAttributesClass", "spec.volumeAttributesClassName", default="<unset>"),
                at("Reason", "status.reason", default=""),
                AGE,
                at("VolumeMode", "spec.volumeMode", wide=True, default="<unset>"),
            ),
            fields={"name": ("metadata", "name")},
            returns_deleted=True,
        ),
        Resource(
            "",
            "v1",
            "PersistentVolumeClaim",
            "persistentvolumeclaims",
            short_names=("pvc",),
            metadata_rules=MetadataRules(whole=repetitions(settings.compatibility_version)),
            strategy=ClaimStrategy(settings.gates, settings.identity, settings.compatibility_version),
            subresources=(Subresource("status"),),
            columns=(
                NAME,
                Column("Status", _phase),
                at("Volume", "spec.volumeName", default=""),
                Column("Capacity", _bound_capacity),
                Column("Access Modes", _bound_modes),
                Column("StorageClass", partial(_class, class_annotation)),
                at("VolumeAttributesClass", "spec.volumeAttributesClassName", default="<unset>"),
                AGE,
                at("VolumeMode", "spec.volumeMode", wide=True, default="<unset>"),
            ),
            fields={"name": ("metadata", "name")},
            returns_deleted=True,
        ),
    ]


def _drop_class(gates: FeatureGates, new: Object, old: Object | None = None) -> None:
    """Drop the VolumeAttributesClass if the feature is disabled, unless the stored object has one."""
    if not gates.enabled("VolumeAttributesClass") and dig(old or {}, ("spec", _CLASS)) is None:
        new["spec"].pop(_CLASS, None)


def _modes(modes: Any) -> str:
    return ",".join(short for mode, short in _SHORT_MODES.items() if mode in (modes or ()))


def _phase(obj: Object) -> str:
    if obj["metadata"].get("deletionTimestamp"):
        return "Terminating"
    return str(dig(obj, ("status", "phase")) or "")


def _claim(volume: Object) -> str:
    reference = dig(volume, ("spec", "claimRef"))
    return f"{reference.get('namespace', '')}/{reference.get('name', '')}" if reference else ""


def _class(annotation: str, obj: Object) -> str:
    annotations = obj["metadata"].get("annotations") or {}
    return str(annotations.get(annotation) or dig(obj, ("spec", "storageClassName")) or "")


def _bound_capacity(claim: Object) -> str:
    if not dig(claim, ("spec", "volumeName")):
        return ""
    return str(dig(claim, ("status", "capacity", "storage")) or "0")


def _bound_modes(claim: Object) -> str:
    return _modes(dig(claim, ("status", "accessModes"))) if dig(claim, ("spec", "volumeName")) else ""

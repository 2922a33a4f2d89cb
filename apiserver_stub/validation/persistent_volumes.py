"""Validation of persistent volumes, and warnings about them."""

from __future__ import annotations

import posixpath

from apiserver_stub.apimachinery import objects
from apiserver_stub.apimachinery.objects import Object, dig
from apiserver_stub.apimachinery.status import (
    Cause,
    forbidden_value,
    invalid_each,
    invalid_value,
    not_supported,
    required,
)
from apiserver_stub.validation.affinity import validate_node_selector
from apiserver_stub.validation.claim_spec import VOLUME_MODES, validate_access_modes
from apiserver_stub.validation.node_labels import deprecation, replacement
from apiserver_stub.validation.persistent_volume_sources import SOURCES, validate_iscsi_portal
from apiserver_stub.validation.quantities import amount, validate_positive_amount
from apiserver_stub.validation.volume_sources import validate_flex_volume
from nodeagent.base.identity import Identity
from nodeagent.base.names import subdomain_problems

RECLAIM_POLICIES = ("Delete", "Recycle", "Retain")
_SECOND_SOURCE = "may not specify more than 1 volume type"
_INLINE = "in the context of inline volumes"
_PATHS, _SECOND_PATHS = {"gcePersistentDisk": "persistentDisk"}, {"cephfs": "cephFS"}
_CLASS = "volumeAttributesClassName"
_WITH_MOUNT_OPTIONS = (
    "gcePersistentDisk",
    "awsElasticBlockStore",
    "glusterfs",
    "nfs",
    "rbd",
    "quobyte",
    "iscsi",
    "cinder",
    "cephfs",
    "azureFile",
    "vsphereVolume",
    "azureDisk",
    "photonPersistentDisk",
)
_DEPRECATED_SOURCES = {
    "cephfs": ("cephfs", "v1.28", "v1.31"),
    "photonPersistentDisk": ("photonPersistentDisk", "v1.11", "v1.16"),
    "scaleIO": ("scaleIO", "v1.16", "v1.22"),
    "storageos": ("storageOS", "v1.22", "v1.25"),
    "glusterfs": ("glusterfs", "v1.25", "v1.26"),
    "rbd": ("rbd", "v1.28", "v1.31"),
}


def validate_volume(new: Object, identity: Identity, *, attributes_class: bool = False) -> list[Cause]:
    """Return the errors in the specification of a volume and in its mount options."""
    spec, metadata = new["spec"], new["metadata"]
    causes = validate_volume_spec(spec, metadata.get("name") or "", "spec", identity, attributes_class=attributes_class)
    label = identity.label("mount-options", "volume.beta")
    if label in (metadata.get("annotations") or {}) and not any(name in spec for name in _WITH_MOUNT_OPTIONS):
        detail = "may not specify mount options for this volume type"
        causes.append(forbidden_value(f"metadata.annotations.{label}", detail))
    return causes


def validate_volume_update(
    new: Object, old: Object, identity: Identity, *, gate: bool, attributes_class: bool, moves: bool = False
) -> list[Cause]:
    """Return the errors in the change of a volume.

    :param gate: the class of a volume may change (spec: gate.VolumeAttributesClass).
    :param moves: the node affinity of a volume may change (spec: gate.MutablePVNodeAffinity).
    """
    spec, before = new["spec"], old.get("spec") or {}
    name = new["metadata"].get("name") or ""
    causes = validate_volume(new, identity, attributes_class=attributes_class)
    # Upstream repeats these.
    causes += validate_volume_spec(spec, name, "spec", identity, attributes_class=attributes_class)
    if _source(spec, before) != _source(before, before):
        detail = "spec.persistentvolumesource is immutable after creation"
        causes.append(forbidden_value("spec.persistentvolumesource", detail))
    if spec.get("volumeMode") != before.get("volumeMode"):
        causes.append(invalid_value("volumeMode", spec.get("volumeMode"), "field is immutable"))
    affinity = before.get("nodeAffinity")
    if not moves and affinity is not None and not _is_same_affinity(spec.get("nodeAffinity"), affinity, identity):
        detail = "field is immutable, except for updating from beta label to GA"
        causes.append(invalid_value("nodeAffinity", spec.get("nodeAffinity"), detail))
    return causes + validate_attributes_class_update(spec, before, gate=gate, attributes_class=attributes_class)


def validate_attributes_class_update(
    spec: Object, before: Object, *, gate: bool, attributes_class: bool
) -> list[Cause]:
    """Return the errors in the change of the class of a volume or claim to none."""
    name, field = spec.get(_CLASS), f"spec.{_CLASS}"
    if name == before.get(_CLASS):
        return []
    causes = []
    if not gate:
        detail = "update is forbidden when the VolumeAttributesClass feature gate is disabled"
        causes.append(forbidden_value(field, detail))
    if attributes_class and before.get(_CLASS) is not None and name is None:
        causes.append(forbidden_value(field, "update from non-nil value to nil is forbidden"))
    return causes


def validate_volume_spec(
    spec: Object,
    volume_name: str,
    field: str,
    identity: Identity,
    *,
    inline: bool = False,
    attributes_class: bool = False,
) -> list[Cause]:
    """Return the errors in the specification of a volume.

    :param inline: the specification is part of a volume attachment, which allows CSI volumes only.
    :param attributes_class: validate the class of the volume.
    """
    modes = spec.get("accessModes") or []
    causes = _validate_inline(spec, field) if inline else []
    if not modes:
        causes.append(required(f"{field}.accessModes"))
    causes += validate_access_modes(modes, f"{field}.accessModes")
    if not inline:
        causes += _validate_capacity(spec.get("capacity") or {}, f"{field}.capacity")
        causes += _validate_policy(spec, field)
        if (affinity := spec.get("nodeAffinity")) is not None:
            causes += _validate_node_affinity(affinity, f"{field}.nodeAffinity")
    causes += _validate_sources(spec, volume_name, field, identity)
    path, policy = dig(spec, ("hostPath", "path")), spec.get("persistentVolumeReclaimPolicy")
    if path and policy == "Recycle" and posixpath.normpath(path) in ("/", "//"):
        detail = "may not be 'recycle' for a hostPath mount of '/'"
        causes.append(forbidden_value(f"{field}.persistentVolumeReclaimPolicy", detail))
    if not inline:
        if name := spec.get("storageClassName"):
            causes += invalid_each(f"{field}.storageClassName", name, subdomain_problems(name))
        if (mode := spec.get("volumeMode")) is not None and mode not in VOLUME_MODES:
            causes.append(not_supported(f"{field}.volumeMode", mode, VOLUME_MODES))
    if attributes_class and (name := spec.get(_CLASS)) is not None:
        field_path = f"{field}.{_CLASS}"
        problems = invalid_each(field_path, name, subdomain_problems(name))
        causes += problems if name else [required(field_path, "an empty string is disallowed")]
        if spec.get("csi") is None:
            causes.append(required(f"{field}.csi", f"has to be specified when using {_CLASS}"))
    return causes


def volume_warnings(new: Object, identity: Identity) -> list[str]:
    """Return the warnings about a volume: deprecated annotations, labels of nodes and sources."""
    spec, found = new["spec"], []
    if storage_class_annotation(identity) in (new["metadata"].get("annotations") or {}):
        found.append(storage_class_annotation_warning(identity))
    for index, term in enumerate(dig(spec, ("nodeAffinity", "required", "nodeSelectorTerms")) or ()):
        for number, expression in enumerate(term.get("matchExpressions") or ()):
            key = expression.get("key") or ""
            if text := deprecation(key, identity):
                field_path = f"spec.nodeAffinity.required.nodeSelectorTerms[{index}].matchExpressions[{number}].key"
                found.append(f"{field_path}: {key} is {text}")
    for source, (name, deprecated, removed) in _DEPRECATED_SOURCES.items():
        if source in spec:
            found.append(f"spec.{name}: deprecated in {deprecated}, non-functional in {removed}+")
    return found


def storage_class_annotation(identity: Identity) -> str:
    """Return the deprecated annotation that contains the name of the storage class."""
    return identity.label("storage-class", "volume.beta")


def storage_class_annotation_warning(identity: Identity) -> str:
    """Return the warning about the annotation that named the storage class once."""
    annotation = storage_class_annotation(identity)
    return f'metadata.annotations[{annotation}]: deprecated since v1.8; use "storageClassName" attribute instead'


def _validate_inline(spec: Object, field: str) -> list[Cause]:
    causes = [
        forbidden_value(f"{field}.{name}", f"may not be specified {_INLINE}")
        for name in ("claimRef", "capacity", "nodeAffinity", "storageClassName")
        if spec.get(name) not in (None, "")
    ]
    if spec.get("csi") is None:
        causes.append(required(f"{field}.csi", f"has to be specified {_INLINE}"))
    if spec.get("persistentVolumeReclaimPolicy") not in (None, "", "Retain"):
        field_path = f"{field}.persistentVolumeReclaimPolicy"
        causes.append(forbidden_value(field_path, f"may only be Retain {_INLINE}"))
    if spec.get("volumeMode") not in (None, "Filesystem"):
        detail = f"may not specify volumeMode other than Filesystem {_INLINE}"
        causes.append(forbidden_value(f"{field}.volumeMode", detail))
    return causes


def _validate_capacity(capacity: dict[str, str], field: str) -> list[Cause]:
    causes = [] if capacity else [required(field)]
    if list(capacity) != ["storage"]:
        causes.append(not_supported(field, capacity, ("storage",)))
    for name, text in capacity.items():
        causes += validate_basic_amount(text, f"{field}[{name}]")
        causes += validate_positive_amount(text, f"{field}[{name}]")
    return causes


def validate_basic_amount(text: str, field: str) -> list[Cause]:
    """Return the error in an amount that is negative when rounded up."""
    value = amount(text).value()
    return [invalid_value(field, value, "must be a valid resource quantity")] if value < 0 else []


def _validate_policy(spec: Object, field: str) -> list[Cause]:
    policy = spec.get("persistentVolumeReclaimPolicy")
    if not policy or policy in RECLAIM_POLICIES:
        return []
    return [not_supported(f"{field}.persistentVolumeReclaimPolicy", policy, RECLAIM_POLICIES)]


def _validate_node_affinity(affinity: Object, field: str) -> list[Cause]:
    if (selector := affinity.get("required")) is None:
        return [required(f"{field}.required", "must specify required node constraints")]
    return validate_node_selector(selector, f"{field}.required")


def _validate_sources(spec: Object, volume_name: str, field: str, identity: Identity) -> list[Cause]:
    causes: list[Cause] = []
    count = 0
    for name, rule in SOURCES.items():
        if (source := spec.get(name)) is None:
            continue
        count += 1
        if count > 1 and name != "flexVolume":
            causes.append(forbidden_value(f"{field}.{_SECOND_PATHS.get(name, name)}", _SECOND_SOURCE))
            continue
        path = f"{field}.{_PATHS.get(name, name)}"
        causes += validate_flex_volume(source, path, identity) if name == "flexVolume" else rule(source, path)
        if name == "iscsi":
            causes += validate_iscsi_portal(source, volume_name, path)
        if name == "local" and spec.get("nodeAffinity") is None:
            causes.append(required(f"{field}.nodeAffinity", "Local volume requires node affinity"))
    return causes if count else [*causes, required(field, "must specify a volume type")]


def _source(spec: Object, before: Object) -> Object:
    """Return the source of a volume; the secret for its expansion may be added later."""
    found = {name: spec[name] for name in SOURCES if name in spec}
    csi, old = found.get("csi"), before.get("csi")
    if csi and old is not None and old.get("controllerExpandSecretRef") is None:
        found["csi"] = {name: value for name, value in csi.items() if name != "controllerExpandSecretRef"}
    return found


def _is_same_affinity(new: Object | None, old: Object, identity: Identity) -> bool:
    """Return whether the affinity changes at most from a deprecated label to its replacement."""
    if new is None:
        return False
    old = objects.clone(old)
    terms, before = (dig(item, ("required", "nodeSelectorTerms")) or [] for item in (new, old))
    for after_term, term in zip(terms, before, strict=False):
        pairs = zip(after_term.get("matchExpressions") or (), term.get("matchExpressions") or (), strict=False)
        for after, expression in pairs:
            if replacement(expression.get("key") or "", identity) == after.get("key"):
                expression["key"] = after.get("key")
    return bool(new == old)

"""Volumes of the storage class ``local-path``, and the claims that it supports. No I/O."""

from __future__ import annotations

from apiserver_stub.apimachinery.objects import Object, dig
from apiserver_stub.controllers.volumes.local_path_class import provisioner_name
from apiserver_stub.scheduling.volume_matching import mode_of
from apiserver_stub.scheduling.volume_names import VolumeNames
from nodeagent.base.identity import Identity

_MODES = ("ReadWriteOnce", "ReadWriteOncePod")


def finalizer(identity: Identity) -> str:
    """Return the finalizer that keeps a volume until its directory was deleted."""
    return identity.label("finalizer", "external-provisioner.volume")


def node_annotation(identity: Identity) -> str:
    """Return the annotation with the name of the node that stores a volume."""
    return identity.label("node-name", "nodeagent")


def volume_name(claim: Object) -> str:
    """Return the name of the volume of *claim*."""
    return f"pvc-{claim['metadata']['uid']}"


def unsupported(claim: Object, storage_class: Object, node: str) -> str:
    """Return why no volume can be created for *claim*; empty if it can."""
    spec = claim["spec"]
    if not storage_class:
        return "the storage class does not exist"
    if not node:
        return "the storage class must have volumeBindingMode WaitForFirstConsumer"
    if mode_of(claim) != "Filesystem":
        return f"volumeMode {mode_of(claim)} is not supported"
    if others := [mode for mode in spec.get("accessModes") or () if mode not in _MODES]:
        return f"access mode {others[0]} is not supported, because the volume is a directory of one node"
    if spec.get("dataSource") or spec.get("dataSourceRef"):
        return "data sources are not supported"
    if spec.get("selector"):
        return "claim.Spec.Selector is not supported for dynamic provisioning"
    return ""


def local_volume(
    claim: Object, storage_class: Object, node: str, hostname: str, path: str, identity: Identity
) -> Object:
    """Return the volume of *claim*, a directory at *path* of *node*."""
    metadata, names = claim["metadata"], VolumeNames.of(identity)
    expression = {"key": identity.label("hostname"), "operator": "In", "values": [hostname]}
    policy = storage_class.get("reclaimPolicy") or "Delete"
    spec: Object = {
        "capacity": {"storage": dig(claim, ("spec", "resources", "requests", "storage"))},
        "accessModes": list(claim["spec"].get("accessModes") or ()),
        "persistentVolumeReclaimPolicy": policy,
        "storageClassName": storage_class["metadata"]["name"],
        "volumeMode": "Filesystem",
        "local": {"path": path},
        "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}},
        "claimRef": {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "namespace": metadata["namespace"],
            "name": metadata["name"],
            "uid": metadata["uid"],
        },
    }
    if storage_class.get("mountOptions"):
        spec["mountOptions"] = list(storage_class["mountOptions"])
    return {
        "metadata": {
            "name": volume_name(claim),
            "annotations": {names.provisioned_by: provisioner_name(identity), node_annotation(identity): node},
            "finalizers": [finalizer(identity)],
        },
        "spec": spec,
    }

"""Claims, volumes and storage classes for tests of the volume controllers."""

from __future__ import annotations

from typing import Any

from tests.unit.apiserver_stub.controllers.harness import MeteredStore

CLAIMS, VOLUMES, CLASSES = "core/persistentvolumeclaims", "core/persistentvolumes", "storage.k8s.io/storageclasses"
PODS, NODES, EVENTS = "core/pods", "core/nodes", "core/events"
Object = dict[str, Any]


def claim(name: str = "c", *, size: str = "1Gi", modes: tuple[str, ...] = ("ReadWriteOnce",), **spec: Any) -> Object:
    annotations = spec.pop("annotations", {})
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": name, "namespace": "n", "uid": f"uid-{name}", "annotations": annotations},
        "spec": {"accessModes": list(modes), "resources": {"requests": {"storage": size}}, **spec},
        "status": {"phase": "Pending"},
    }


def volume(name: str = "v", *, size: str = "1Gi", modes: tuple[str, ...] = ("ReadWriteOnce",), **spec: Any) -> Object:
    metadata = {"name": name, "uid": f"uid-{name}", **spec.pop("metadata", {})}
    phase = spec.pop("phase", "Available")
    defaults = {"persistentVolumeReclaimPolicy": "Retain", "hostPath": {"path": "/x"}}
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": metadata,
        "spec": {"accessModes": list(modes), "capacity": {"storage": size}, **defaults, **spec},
        "status": {"phase": phase},
    }


def storage_class(name: str, provisioner: str = "example.com/p", *, delayed: bool = True, **fields: Any) -> Object:
    mode = "WaitForFirstConsumer" if delayed else "Immediate"
    metadata = {"name": name, "annotations": fields.pop("annotations", {})}
    return {"metadata": metadata, "provisioner": provisioner, "volumeBindingMode": mode, **fields}


def reference(of: str, uid: str = "") -> Object:
    return {"kind": "PersistentVolumeClaim", "namespace": "n", "name": of, **({"uid": uid} if uid else {})}


def bound_to(store: MeteredStore, name: str = "c") -> tuple[str, str | None]:
    """Return the phase of a claim and its volume."""
    found = store.read(CLAIMS, f"n/{name}")
    return found["status"]["phase"], found["spec"].get("volumeName")


def phase(store: MeteredStore, name: str = "v") -> str:
    found: str = store.read(VOLUMES, name)["status"]["phase"]
    return found


def events(store: MeteredStore) -> list[tuple[str, str, str]]:
    found = [store.read(EVENTS, record.key) for record in store.collection(EVENTS).select()]
    return sorted((item["regarding"]["name"], item["reason"], item["note"]) for item in found)

"""Changes of claims and persistent volumes by controllers."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from apiserver_stub.apimachinery import objects
from apiserver_stub.apimachinery.objects import Object, dig
from apiserver_stub.controllers.object_changes import change_object
from apiserver_stub.scheduling.volume_matching import annotations_of, is_bound_to
from apiserver_stub.scheduling.volume_names import VolumeNames

if TYPE_CHECKING:
    from apiserver_stub.storage import Store

VOLUMES, CLAIMS = "core/persistentvolumes", "core/persistentvolumeclaims"


async def change(store: Store, collection: str, seen: Object, edit: Callable[[Object], None]) -> Object | None:
    """Apply *edit* to the current state of an object and return the result, ``None`` if the object was deleted.

    :param seen: the object as seen by the controller; another object with its name is not changed.
    :param edit: changes its argument, or leaves it as it is if the change no longer applies.
    """
    changed = await change_object(store, collection, seen, edit)
    return None if changed is None else changed.obj


async def reserve(store: Store, volume: Object, claim: Object, names: VolumeNames) -> bool:
    """Reserve *volume* for *claim*; return whether it is reserved, not taken by another claim since it was seen."""
    metadata = claim["metadata"]
    reference = {
        "kind": "PersistentVolumeClaim",
        "namespace": metadata["namespace"],
        "name": metadata["name"],
        "uid": metadata.get("uid"),
        "apiVersion": "v1",
        "resourceVersion": metadata.get("resourceVersion"),
    }

    def edit(obj: Object) -> None:
        bound = is_bound_to(obj, claim)
        if dig(obj, ("spec", "claimRef")) and not bound:
            return
        if not bound:
            annotate(obj, names.bound_by_controller, "yes")
        if dig(obj, ("spec", "claimRef", "uid")) != metadata.get("uid"):
            obj["spec"]["claimRef"] = {key: value for key, value in reference.items() if value}

    new = await change(store, VOLUMES, volume, edit)
    return new is not None and is_bound_to(new, claim)


async def select_node(store: Store, claim: Object, node: str, names: VolumeNames) -> None:
    """Record that the volume of *claim* is to be created for *node*."""

    def edit(obj: Object) -> None:
        if names.selected_node not in annotations_of(obj) and not dig(obj, ("spec", "volumeName")):
            annotate(obj, names.selected_node, node)

    await change(store, CLAIMS, claim, edit)


async def is_claimed(store: Store, volume: Object) -> bool:
    """Return whether the claim of *volume* exists and is not bound to another volume, as of now.

    The claims of a shared store may be behind its volumes; data is deleted only after they have caught up.
    """
    reference = dig(volume, ("spec", "claimRef")) or {}
    await store.catch_up(CLAIMS)
    key = objects.key_of(reference.get("namespace") or "", reference.get("name") or "")
    record = store.collection(CLAIMS).get(key)
    if record is None:
        return False
    claim: Object = objects.decode(record.data)
    bound_to = dig(claim, ("spec", "volumeName"))
    return claim["metadata"].get("uid") == reference.get("uid") and bound_to in (None, "", volume["metadata"]["name"])


async def set_phase(store: Store, volume: Object, phase: str, message: str = "") -> Object | None:
    """Set the phase of *volume*; return its new state."""

    def edit(obj: Object) -> None:
        status = obj.setdefault("status", {})
        if status.get("phase") == phase:
            return
        status["phase"], status["lastPhaseTransitionTime"] = phase, objects.now()
        if message:
            status["message"] = message
        else:
            status.pop("message", None)

    return await change(store, VOLUMES, volume, edit)


def annotate(obj: Object, name: str, value: str) -> None:
    """Set an annotation of *obj*."""
    metadata = obj["metadata"]
    metadata["annotations"] = {**(metadata.get("annotations") or {}), name: value}


def drop_annotation(obj: Object, name: str) -> None:
    """Remove an annotation of *obj*."""
    metadata = obj["metadata"]
    left = {key: value for key, value in (metadata.get("annotations") or {}).items() if key != name}
    if left:
        metadata["annotations"] = left
    else:
        metadata.pop("annotations", None)

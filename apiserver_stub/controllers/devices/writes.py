"""Changes of resource claims by controllers.

The changed fields have the same names in all API versions, so stored claims keep their version.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from apiserver_stub.apimachinery import objects
from apiserver_stub.apimachinery.objects import Object
from apiserver_stub.controllers.object_changes import change_object
from apiserver_stub.scheduling.pod_claims import can_be_reserved, consumer, is_reserved_for
from apiserver_stub.storage import Keep, Outcome, Put, Record, Remove
from nodeagent.base.identity import Identity
from nodeagent.base.structs import Struct

if TYPE_CHECKING:
    from apiserver_stub.storage import Store


_LONGEST_EXTENDED = 227
"""Length to which names of pods are truncated in the names of claims for extended resources."""


class DeviceNames(Struct, frozen=True):
    """Names of dynamic resource allocation that depend on the identity."""

    group: str
    """API group."""
    finalizer: str
    """Finalizer of allocated claims."""
    pod_claim: str
    """Annotation of generated claims: the name in the pod."""
    extended: str
    """Annotation of the claims for extended resources."""
    class_resource: str
    """Prefix of the extended resource of each device class."""

    @classmethod
    def of(cls, identity: Identity) -> DeviceNames:
        names = ("delete-protection", "pod-claim-name", "extended-resource-claim")
        finalizer, pod_claim, extended = (identity.label(name, "resource") for name in names)
        class_resource = identity.label("", "deviceclass.resource")
        return cls(identity.group("resource"), finalizer, pod_claim, extended, class_resource)

    @property
    def classes(self) -> str:
        """Collection of the device classes."""
        return f"{self.group}/deviceclasses"

    @property
    def slices(self) -> str:
        """Collection of the resource slices."""
        return f"{self.group}/resourceslices"

    @property
    def claims(self) -> str:
        """Collection of the resource claims."""
        return f"{self.group}/resourceclaims"

    @property
    def rules(self) -> str:
        """Collection of the taint rules."""
        return f"{self.group}/devicetaintrules"

    @property
    def templates(self) -> str:
        """Collection of the resource claim templates."""
        return f"{self.group}/resourceclaimtemplates"


async def allocate(store: Store, names: DeviceNames, claim: Object, allocation: Object, pod: Object) -> bool:
    """Allocate *claim* and reserve it for *pod*; return ``False`` if the claim is allocated or deleted."""

    def edit(obj: Object) -> bool:
        status, metadata = obj.setdefault("status", {}), obj["metadata"]
        if status.get("allocation") is not None or "deletionTimestamp" in metadata:
            return False
        finalizers = metadata.get("finalizers") or []
        if names.finalizer not in finalizers:
            metadata["finalizers"] = [*finalizers, names.finalizer]
        status["allocation"], status["reservedFor"] = allocation, [consumer(pod)]
        return True

    return await _change(store, names, claim, edit)


async def create_extended(store: Store, names: DeviceNames, spec: Object, allocation: Object, pod: Object) -> str:
    """Create the allocated claim for the extended resources of *pod*, reserved for it; return its name."""
    metadata = pod["metadata"]
    base = f"{metadata['name'][:_LONGEST_EXTENDED]}-extended-resources-"
    while True:
        name, created = base + objects.name_suffix(), False
        claim: Object = {
            "kind": "ResourceClaim",
            "apiVersion": f"{names.group}/v1",
            "metadata": {
                "name": name,
                "generateName": base,
                "namespace": metadata["namespace"],
                "uid": objects.new_uid(),
                "creationTimestamp": objects.now(),
                "annotations": {names.extended: "true"},
                "ownerReferences": [owner_reference(pod)],
                "finalizers": [names.finalizer],
            },
            "spec": spec,
            "status": {"allocation": allocation, "reservedFor": [consumer(pod)]},
        }

        def decide(current: Record | None, claim: Object = claim) -> Outcome:
            nonlocal created
            created = current is None
            return Put(objects.encode_for_store(claim)) if current is None else Keep()

        await store.update(names.claims, objects.key_of(metadata["namespace"], name), decide)
        if created:
            return name


def owner_reference(pod: Object) -> Object:
    """Return the reference to the pod that owns a claim."""
    metadata = pod["metadata"]
    return {"apiVersion": "v1", "kind": "Pod", "name": metadata["name"], "uid": metadata["uid"], "controller": True}


async def reserve_claim(store: Store, names: DeviceNames, claim: Object, pod: Object) -> bool:
    """Reserve the allocated *claim* for *pod*; return ``False`` if that is no longer possible."""

    def edit(obj: Object) -> bool:
        status = obj.setdefault("status", {})
        if is_reserved_for(obj, pod["metadata"]["uid"]):
            return True
        allocated = status.get("allocation") is not None and "deletionTimestamp" not in obj["metadata"]
        if not allocated or not can_be_reserved(obj):
            return False
        status["reservedFor"] = [*(status.get("reservedFor") or ()), consumer(pod)]
        return True

    return await _change(store, names, claim, edit)


async def release_claim(
    store: Store, names: DeviceNames, claim: Object, is_consumer: Callable[[Object], bool]
) -> Object | None:
    """Remove consumers that no longer need *claim*, and deallocate it after the last one.

    The finalizer is removed with the allocation, and a claim whose deletion waited for it is deleted.

    :returns: the current claim, ``None`` if it is deleted.
    """
    result: Object | None = None

    def edit(obj: Object) -> bool:
        nonlocal result
        result = obj
        status, metadata = obj.get("status") or {}, obj["metadata"]
        before = status.get("reservedFor") or []
        kept = [item for item in before if is_consumer(item)]
        unused = not kept and (bool(before) or "deletionTimestamp" in metadata)
        if not unused and len(kept) == len(before):
            return False
        left = {key: value for key, value in status.items() if key != "reservedFor"}
        obj["status"] = {**left, "reservedFor": kept} if kept else left
        if unused and names.finalizer in (metadata.get("finalizers") or ()):
            obj["status"] = {key: value for key, value in left.items() if key not in ("allocation", "devices")}
            metadata["finalizers"] = [item for item in metadata["finalizers"] if item != names.finalizer]
            if not metadata["finalizers"]:
                del metadata["finalizers"]
        return True

    await _change(store, names, claim, edit)
    return result


async def deallocate(store: Store, names: DeviceNames, claim: Object, pod: Object) -> None:
    """Deallocate *claim*, which only *pod* has reserved, so that other devices are allocated."""
    uid = pod["metadata"]["uid"]

    def edit(obj: Object) -> bool:
        status = obj.get("status") or {}
        if any(item.get("uid") != uid for item in status.get("reservedFor") or ()):
            return False
        dropped = ("reservedFor", "allocation", "devices")
        obj["status"] = {key: value for key, value in status.items() if key not in dropped}
        metadata = obj["metadata"]
        metadata["finalizers"] = [item for item in metadata.get("finalizers") or () if item != names.finalizer]
        if not metadata["finalizers"]:
            del metadata["finalizers"]
        return True

    await _change(store, names, claim, edit)


async def delete_extended(store: Store, names: DeviceNames, claim: Object) -> None:
    """Delete the claim for extended resources of a pod that is not bound."""
    metadata = claim["metadata"]

    def decide(current: Record | None) -> Outcome:
        if current is None or objects.decode(current.data)["metadata"].get("uid") != metadata["uid"]:
            return Keep()
        return Remove(current.data)

    await store.update(names.claims, objects.key_of(metadata["namespace"], metadata["name"]), decide)


async def _change(store: Store, names: DeviceNames, claim: Object, edit: Callable[[Object], bool]) -> bool:
    """Apply *edit* to the current state of *claim*; return its result, ``False`` if the claim is deleted."""

    def outcome(obj: Object, _before: Object) -> Outcome:
        data = objects.encode_for_store(obj)
        deletable = "deletionTimestamp" in obj["metadata"] and not obj["metadata"].get("finalizers")
        return Remove(data) if deletable else Put(data)

    changed = await change_object(store, names.claims, claim, edit, outcome)
    return changed is not None and changed.applied

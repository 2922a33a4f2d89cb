"""Match of claims and persistent volumes: which volume satisfies a claim. No I/O."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from apiserver_stub.apimachinery.label_selectors import read_selector
from apiserver_stub.apimachinery.objects import Object, dig
from apiserver_stub.scheduling.volume_names import VolumeNames
from nodeagent.base.node_affinity import node_matches
from nodeagent.base.quantity import Quantity

WAIT_FOR_FIRST_CONSUMER = "WaitForFirstConsumer"
READ_WRITE_ONCE_POD = "ReadWriteOncePod"


def annotations_of(obj: Object) -> Mapping[str, str]:
    """Return the annotations of *obj*."""
    found = obj["metadata"].get("annotations")
    return found if isinstance(found, dict) else {}  # Another server of the same store may write anything.


def class_of(obj: Object, names: VolumeNames) -> str:
    """Return the storage class of a claim or volume, empty without one."""
    annotation = annotations_of(obj).get(names.storage_class)
    return annotation if annotation is not None else dig(obj, ("spec", "storageClassName")) or ""


def mode_of(obj: Object) -> str:
    """Return the volume mode of a claim or volume."""
    return dig(obj, ("spec", "volumeMode")) or "Filesystem"


def requested_size(claim: Object) -> int:
    """Return the requested size of *claim* in bytes."""
    return _bytes(dig(claim, ("spec", "resources", "requests", "storage")))


def capacity(volume: Object) -> int:
    """Return the capacity of *volume* in bytes."""
    return _bytes(dig(volume, ("spec", "capacity", "storage")))


def is_bound_to(volume: Object, claim: Object) -> bool:
    """Return whether *volume* is bound to *claim* or reserved for it."""
    reference = dig(volume, ("spec", "claimRef"))
    if not reference:
        return False
    metadata = claim["metadata"]
    if (reference.get("name"), reference.get("namespace")) != (metadata["name"], metadata.get("namespace")):
        return False
    return not reference.get("uid") or reference["uid"] == metadata.get("uid")


def is_fully_bound(claim: Object, names: VolumeNames) -> bool:
    """Return whether the binding of *claim* has completed."""
    return bool(dig(claim, ("spec", "volumeName"))) and names.bind_completed in annotations_of(claim)


def delays_binding(claim: Object, classes: Mapping[str, Object], names: VolumeNames) -> bool:
    """Return whether *claim* waits for the first pod that uses it."""
    found = classes.get(class_of(claim, names))
    return found is not None and found.get("volumeBindingMode") == WAIT_FOR_FIRST_CONSUMER


def accessible_from(volume: Object, labels: Mapping[str, str], node: str) -> bool:
    """Return whether the node affinity of *volume* allows the node with *labels*."""
    required = dig(volume, ("spec", "nodeAffinity", "required"))
    return required is None or node_matches({}, required.get("nodeSelectorTerms") or (), labels, node)


def mismatch(volume: Object, claim: Object, names: VolumeNames) -> str:
    """Return why *volume* does not satisfy *claim*, which requests it by name; empty if it does."""
    if "deletionTimestamp" in volume["metadata"]:
        return f'the volume is marked for deletion "{volume["metadata"]["name"]}"'
    if capacity(volume) < requested_size(claim):
        return "requested PV is too small"
    if class_of(volume, names) != class_of(claim, names):
        return "storageClassName does not match"
    if mode_of(volume) != mode_of(claim):
        return "incompatible volumeMode"
    return "" if _has_modes(volume, claim) else "incompatible accessMode"


def find_match(
    claim: Object,
    volumes: Iterable[Object],
    names: VolumeNames,
    *,
    delayed: bool = False,
    node: tuple[str, Mapping[str, str]] | None = None,
    excluded: Collection[str] = (),
) -> Object | None:
    """Return the best volume for *claim*: the one reserved for it, or the smallest with the fewest access modes.

    :param delayed: the claim waits for its first consumer; without *node*, only a reserved volume is returned.
    :param node: name and labels of the node from which the volume must be accessible, in scheduling decisions.
    :param excluded: names of volumes that are intended for other claims of the same pod.
    """
    selector = dig(claim, ("spec", "selector"))
    selects = read_selector(selector).matches if selector else None
    requested_class, size = class_of(claim, names), requested_size(claim)
    best: tuple[int, int, str] | None = None
    found: Object | None = None
    for volume in volumes:
        metadata = volume["metadata"]
        bound = is_bound_to(volume, claim)
        if metadata["name"] in excluded or (dig(volume, ("spec", "claimRef")) and not bound):
            continue
        if capacity(volume) < size or mode_of(volume) != mode_of(claim) or "deletionTimestamp" in metadata:
            continue
        accessible = node is None or accessible_from(volume, node[1], node[0])
        if bound and _has_modes(volume, claim):
            return volume if accessible else None
        if bound or (node is None and delayed) or not accessible:
            continue
        if dig(volume, ("status", "phase")) != "Available" or class_of(volume, names) != requested_class:
            continue
        if (selects is not None and not selects(metadata.get("labels") or {})) or not _has_modes(volume, claim):
            continue
        rank = (len(dig(volume, ("spec", "accessModes")) or ()), capacity(volume), metadata["name"])
        if best is None or rank < best:
            best, found = rank, volume
    return found


def _has_modes(volume: Object, claim: Object) -> bool:
    return set(dig(claim, ("spec", "accessModes")) or ()) <= set(dig(volume, ("spec", "accessModes")) or ())


def _bytes(text: object) -> int:
    try:
        return Quantity.parse(str(text)).value() if text is not None else 0
    except ValueError:
        return 0

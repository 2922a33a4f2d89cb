"""Volumes that nodes need attached, and their attachments, as seen by the attach-detach controller. No I/O."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection, Iterable, Iterator

from msgspec import field

from apiserver_stub.apimachinery import objects
from apiserver_stub.apimachinery.objects import Object, dig
from apiserver_stub.controllers.volume_protection import claims_of
from nodeagent.base.structs import MutableStruct, Struct

PLUGIN = "kubernetes.io/csi/"
"""Start of the names of CSI volumes in node statuses."""
_NAME = re.compile("csi-[0-9a-f]{64}")
_SHARED = ("ReadWriteMany", "ReadOnlyMany")


class AttachableVolume(Struct, frozen=True):
    """Volume of a CSI driver whose volumes are attached."""

    name: str
    """Name of the PersistentVolume."""
    driver: str
    handle: str
    shared: bool
    """It may be attached to several nodes."""

    @property
    def unique_name(self) -> str:
        """Name in node statuses."""
        return f"{PLUGIN}{self.driver}^{self.handle}"

    def attachment_name(self, node: str) -> str:
        """Return the name of the VolumeAttachment for a node, on which node and drivers depend."""
        return f"csi-{hashlib.sha256(f'{self.handle}{self.driver}{node}'.encode()).hexdigest()}"


class AttachmentState(MutableStruct):
    """Objects by key, and the pods with claims by node."""

    pods: dict[str, tuple[str, frozenset[str]]] = field(default_factory=dict)
    """Node and claims of each pod."""
    claims: dict[str, str] = field(default_factory=dict)
    """Name of the volume of each bound claim."""
    volumes: dict[str, AttachableVolume] = field(default_factory=dict)
    """CSI volumes, also those of drivers that attach nothing."""
    drivers: dict[str, bool] = field(default_factory=dict)
    """True for each driver whose volumes are attached; a driver without an object counts as such."""
    attachments: dict[str, Object] = field(default_factory=dict)

    def clear(self) -> None:
        """Drop all objects."""
        for known in (self.pods, self.claims, self.volumes, self.drivers, self.attachments):
            known.clear()

    def see_pod(self, key: str, pod: Object | None) -> set[str]:
        """Record the new state of a pod, ``None`` if it was deleted; return the nodes that are affected."""
        before = self.pods.pop(key, None)
        claims = frozenset(claims_of(pod)) if pod is not None else frozenset()
        if pod is not None and claims:
            self.pods[key] = pod["spec"]["nodeName"], claims
        after = self.pods.get(key)
        return set() if before == after else {each[0] for each in (before, after) if each is not None}

    def nodes_of_claim(self, key: str) -> set[str]:
        """Return the nodes with pods that use a claim."""
        return {node for node, claims in self.pods.values() if key in claims}

    def nodes(self) -> set[str]:
        """Return the nodes with pods that use claims, or with attachments."""
        attached = (str(dig(each, ("spec", "nodeName"))) for each in self.attachments.values())
        return {node for node, _ in self.pods.values()}.union(attached)

    def needed(self, node: str) -> dict[str, tuple[AttachableVolume, list[str]]]:
        """Return the volumes that pods on *node* need attached, with the keys of these pods, by attachment."""
        found: dict[str, tuple[AttachableVolume, list[str]]] = {}
        for pod, (name, claims) in self.pods.items():
            if name != node:
                continue
            for volume in self._volumes_of(claims):
                found.setdefault(volume.attachment_name(node), (volume, []))[1].append(pod)
        return found

    def attached_to(self, node: str, names: Collection[str] = ()) -> Iterator[tuple[AttachableVolume, Object]]:
        """Yield the attachments of *node*, as the controller creates them.

        :param names: the volumes in the node's status, which identify those whose PersistentVolume was deleted.
        """
        for name, attachment in self.attachments.items():
            if dig(attachment, ("spec", "nodeName")) != node:
                continue
            volume = self.volume_of(attachment)
            if volume is None:
                volume = _deleted_volume(name, attachment, node, names)
            elif volume.attachment_name(node) != name:
                volume = None
            if volume is not None:
                yield volume, attachment

    def volume_of(self, attachment: Object) -> AttachableVolume | None:
        """Return the volume of an attachment, ``None`` if it has no PersistentVolume."""
        return self.volumes.get(dig(attachment, ("spec", "source", "persistentVolumeName")) or "")

    def other_nodes(self, volume: AttachableVolume, node: str) -> list[str]:
        """Return the other nodes with attachments of *volume*, including those that are being detached."""
        found = (
            dig(each, ("spec", "nodeName")) for each in self.attachments.values() if self.volume_of(each) == volume
        )
        return sorted(str(name) for name in found if name != node)

    def _volumes_of(self, claims: Iterable[str]) -> Iterator[AttachableVolume]:
        for key in claims:
            volume = self.volumes.get(self.claims.get(key, ""))
            if volume is not None and self.drivers.get(volume.driver, True):
                yield volume


def _deleted_volume(name: str, attachment: Object, node: str, names: Collection[str]) -> AttachableVolume | None:
    """Return the volume of an attachment whose PersistentVolume was deleted; without a handle if none of *names* is it.

    The name of an attachment is a digest of the handle, so a name in the node's status can be compared with it.
    """
    persistent = str(dig(attachment, ("spec", "source", "persistentVolumeName")) or "")
    if not persistent or not _NAME.fullmatch(name):
        return None
    driver = str(dig(attachment, ("spec", "attacher")) or "")
    for unique in names:
        volume = AttachableVolume(persistent, driver, unique.removeprefix(f"{PLUGIN}{driver}^"), shared=False)
        if volume.unique_name == unique and volume.attachment_name(node) == name:
            return volume
    return AttachableVolume(persistent, driver, "", shared=False)


def csi_volume(obj: Object) -> AttachableVolume | None:
    """Return a PersistentVolume as a volume of a CSI driver, ``None`` if it has another source."""
    csi = dig(obj, ("spec", "csi"))
    if not csi:
        return None
    shared = any(mode in _SHARED for mode in dig(obj, ("spec", "accessModes")) or ())
    return AttachableVolume(obj["metadata"]["name"], csi.get("driver", ""), csi.get("volumeHandle", ""), shared)


def bound_volume(claim: Object) -> str:
    """Return the name of the volume to which a claim is bound; empty if it is not."""
    bound = dig(claim, ("status", "phase")) == "Bound"
    return str(dig(claim, ("spec", "volumeName")) or "") if bound else ""


def claim_of(volume: Object) -> str:
    """Return the key of the claim for which a volume is reserved; empty without one."""
    reference = dig(volume, ("spec", "claimRef")) or {}
    name = reference.get("name")
    return objects.key_of(reference.get("namespace") or "", name) if name else ""

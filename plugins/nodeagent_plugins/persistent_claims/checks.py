"""Checks of claims and PersistentVolumes before a pod uses them. No I/O."""

from __future__ import annotations

from nodeagent.base import identity
from nodeagent.contracts.persistent_volumes import VolumeMode
from nodeagent.errors import VolumeError
from nodeagent.model.persistent_volume import PersistentVolume, PersistentVolumeClaim
from nodeagent.model.pod import Pod


def check_claim(claim: PersistentVolumeClaim) -> None:
    """Check that *claim* is bound.

    A claim that is being deleted is accepted while it is protected: its running pods would otherwise lose their
    volumes when the agent restarts.

    :raises VolumeError: the claim cannot be used.
    """
    protected = identity.current().label("pvc-protection") in (claim.metadata.finalizers or ())
    if claim.metadata.deletion_timestamp is not None and not protected:
        raise VolumeError("PVC is being deleted")
    if claim.status.phase != "Bound":
        raise VolumeError("PVC is not bound")
    if not claim.spec.volume_name:
        raise VolumeError("PVC has empty pvc.Spec.VolumeName")


def check_owner(claim: PersistentVolumeClaim, pod: Pod) -> None:
    """Check that *claim*, which has the name of an ephemeral volume's claim, was created for *pod*.

    :raises VolumeError: the claim belongs to a user or to another pod.
    """
    owners = claim.metadata.owner_references or ()
    if not any(owner.controller and owner.uid == pod.uid for owner in owners):
        raise VolumeError(
            f"PVC {claim.metadata.namespace}/{claim.metadata.name} was not created for pod "
            f"{pod.namespace}/{pod.name} (pod is not owner)"
        )


def check_bound(pv: PersistentVolume, claim: PersistentVolumeClaim) -> None:
    """Check that *pv* is bound to *claim*, and not to an earlier claim of the same name.

    :raises VolumeError: it is not.
    """
    name, reference = pv.metadata.name, pv.spec.claim_ref
    if reference is None:
        raise VolumeError(
            f"found PV object {name} but it has a nil pv.Spec.ClaimRef indicating it is not yet bound to the claim"
        )
    if reference.uid != claim.metadata.uid:
        raise VolumeError(
            f"found PV object {name} but its pv.Spec.ClaimRef.UID {reference.uid} does not point to claim.UID "
            f"{claim.metadata.uid}"
        )


def check_mode(pod: Pod, volume: str, mode: VolumeMode) -> None:
    """Check that containers use the volume in the form that its *mode* provides.

    :param volume: the name in the pod spec.
    :raises VolumeError: a container mounts a block volume, or uses a file system as a device.
    """
    for _, container in pod.containers():
        mounted = any(mount.name == volume for mount in container.volume_mounts or ())
        if mounted and mode is not VolumeMode.FILESYSTEM:
            raise VolumeError(f"volume {volume} has volumeMode {mode}, but is specified in volumeMounts")
    for _, container in pod.containers():
        used = any(device.name == volume for device in container.volume_devices or ())
        if used and mode is not VolumeMode.BLOCK:
            raise VolumeError(f"volume {volume} has volumeMode {mode}, but is specified in volumeDevices")

"""Reconciliation of one persistent volume: its phase, and its reclaim policy once the claim is deleted."""

from __future__ import annotations

from typing import TYPE_CHECKING

from apiserver_stub.apimachinery import objects
from apiserver_stub.apimachinery.objects import Object, dig
from apiserver_stub.controllers.event_recorder import EventRecorder
from apiserver_stub.controllers.volumes.writes import VOLUMES, change, drop_annotation, is_claimed, set_phase
from apiserver_stub.scheduling.volume_binding import VolumeState
from apiserver_stub.scheduling.volume_matching import annotations_of, mode_of
from nodeagent.base.identity import Identity

if TYPE_CHECKING:
    from apiserver_stub.storage import Store

_RELEASED = ("Released", "Failed")


class VolumeSync:
    """Reconciles volumes with the claims in *state*."""

    def __init__(self, store: Store, state: VolumeState, events: EventRecorder, identity: Identity) -> None:
        self._store, self._state, self._events = store, state, events
        self._names, self._in_tree = state.names, f"{identity.label_domain}/"

    async def sync(self, volume: Object) -> None:
        """Bring *volume* one step closer to the state that its claim requires."""
        reference = dig(volume, ("spec", "claimRef")) or {}
        if not reference.get("uid"):
            await set_phase(self._store, volume, "Available")
            return
        claim = self._state.claims.get(objects.key_of(reference.get("namespace") or "", reference.get("name") or ""))
        if claim is None or claim["metadata"].get("uid") != reference["uid"]:
            await self._reclaim(volume)
            return
        bound_to = dig(claim, ("spec", "volumeName"))
        if bound_to == volume["metadata"]["name"]:
            await set_phase(self._store, volume, "Bound")
        elif not bound_to:
            self._report_mode(volume, claim)
        elif self._names.provisioned_by in annotations_of(volume) and _policy(volume) == "Delete":
            await self._reclaim(volume)
        else:
            await self._unbind(volume)

    def _report_mode(self, volume: Object, claim: Object) -> None:
        """Report a volume that was reserved for a claim of another mode; the claim's own sync binds all others."""
        if mode_of(volume) == mode_of(claim):
            return
        name, of_claim = volume["metadata"]["name"], claim["metadata"]["name"]
        note = f'Cannot bind PersistentVolume to requested PersistentVolumeClaim "{of_claim}" due to incompatible'
        self._report(volume, "Warning", "VolumeMismatch", f"{note} volumeMode.")
        note = f'Cannot bind PersistentVolume "{name}" to requested PersistentVolumeClaim due to incompatible'
        self._report(claim, "Warning", "VolumeMismatch", f"{note} volumeMode.")

    async def _unbind(self, volume: Object) -> None:
        """Undo the reservation of a volume whose claim is bound to another one."""

        def edit(obj: Object) -> None:
            if self._names.bound_by_controller in annotations_of(obj):
                obj["spec"].pop("claimRef", None)
                drop_annotation(obj, self._names.bound_by_controller)
            elif dig(obj, ("spec", "claimRef")):
                obj["spec"]["claimRef"].pop("uid", None)

        if (new := await change(self._store, VOLUMES, volume, edit)) is not None:
            await set_phase(self._store, new, "Available")

    async def _reclaim(self, volume: Object) -> None:
        """Release *volume*; the provisioner of a volume that is to be deleted acts on the phase."""
        if dig(volume, ("status", "phase")) not in _RELEASED:
            if await is_claimed(self._store, volume):
                return  # The claim appears in the state soon, which queues the volume again.
            if (released := await set_phase(self._store, volume, "Released")) is None:
                return
            volume = released
        if annotations_of(volume).get(self._names.migrated_to):
            return
        match _policy(volume):
            case "Retain":
                return
            case "Recycle":
                note = "Recycle failed: volumes are not recycled by this server; delete the PersistentVolume instead"
                await self._fail(volume, "VolumeFailedRecycle", note)
            case "Delete":
                provisioner = annotations_of(volume).get(self._names.provisioned_by) or self._in_tree
                if provisioner.startswith(self._in_tree):
                    name = volume["metadata"]["name"]
                    note = (
                        f'error getting deleter volume plugin for volume "{name}": no deletable volume plugin matched'
                    )
                    await self._fail(volume, "VolumeFailedDelete", note)
            case _:
                note = "Volume has unrecognized PersistentVolumeReclaimPolicy"
                await self._fail(volume, "VolumeUnknownReclaimPolicy", note)

    async def _fail(self, volume: Object, reason: str, note: str) -> None:
        if dig(volume, ("status", "phase")) == "Failed":
            return
        await set_phase(self._store, volume, "Failed", note)
        self._report(volume, "Warning", reason, note)

    def _report(self, obj: Object, kind: str, reason: str, note: str) -> None:
        self._events.record(obj, kind, reason, reason, note)


def _policy(volume: Object) -> str:
    return dig(volume, ("spec", "persistentVolumeReclaimPolicy")) or ""

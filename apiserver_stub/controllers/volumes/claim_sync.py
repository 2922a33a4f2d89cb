"""Reconciliation of one claim: find and bind a volume, or request one from a provisioner."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from apiserver_stub.apimachinery.objects import Object, dig
from apiserver_stub.controllers.event_recorder import EventRecorder
from apiserver_stub.controllers.volumes.writes import CLAIMS, annotate, change, reserve, set_phase
from apiserver_stub.scheduling.volume_binding import VolumeState
from apiserver_stub.scheduling.volume_matching import (
    annotations_of,
    class_of,
    delays_binding,
    find_match,
    is_bound_to,
    mismatch,
)
from nodeagent.base.identity import Identity

if TYPE_CHECKING:
    from apiserver_stub.storage import Store

_MIGRATED = {
    "aws-ebs": "ebs.csi.aws.com",
    "azure-disk": "disk.csi.azure.com",
    "azure-file": "file.csi.azure.com",
    "cinder": "cinder.csi.openstack.org",
    "gce-pd": "pd.csi.storage.gke.io",
    "portworx-volume": "pxd.portworx.com",
    "vsphere-volume": "csi.vsphere.vmware.com",
}
_LOST = "Bound claim has lost reference to PersistentVolume. Data on the volume is lost!"
_LOST_VOLUME = "Bound claim has lost its PersistentVolume. Data on the volume is lost!"
_MISBOUND = "Two claims are bound to the same volume, this one is bound incorrectly"
_NO_CLASS = "no persistent volumes available for this claim and no storage class is set"
_EXTERNAL = (
    "Waiting for a volume to be created either by the external provisioner '{}' or manually by the system "
    "administrator. If volume creation is delayed, please verify that the provisioner is running and correctly "
    "registered."
)


class ClaimSync:
    """Reconciles claims with the volumes in *state*."""

    def __init__(
        self,
        store: Store,
        state: VolumeState,
        waiting: Mapping[str, set[str]],
        events: EventRecorder,
        identity: Identity,
    ) -> None:
        self._store, self._state, self._waiting, self._events = store, state, waiting, events
        self._names, self._identity = state.names, identity
        self._default_class = tuple(
            identity.label("is-default-class", prefix) for prefix in ("storageclass", "storageclass.beta")
        )

    async def sync(self, key: str, claim: Object) -> None:
        """Bring *claim* one step closer to a bound state."""
        if self._names.bind_completed in annotations_of(claim):
            await self._sync_bound(claim)
        elif name := dig(claim, ("spec", "volumeName")):
            await self._sync_requested(claim, name)
        else:
            await self._sync_unbound(key, claim)

    async def _sync_bound(self, claim: Object) -> None:
        name = dig(claim, ("spec", "volumeName"))
        volume = self._state.volumes.get(name or "")
        if volume is None:
            await self._lose(claim, "ClaimLost", _LOST_VOLUME if name else _LOST)
        elif dig(volume, ("spec", "claimRef", "uid")) in (None, "", claim["metadata"].get("uid")):
            await self._bind(volume, claim)
        else:
            await self._lose(claim, "ClaimMisbound", _MISBOUND)

    async def _sync_requested(self, claim: Object, name: str) -> None:
        volume = self._state.volumes.get(name)
        if volume is None:
            await self._set_pending(claim)
        elif not dig(volume, ("spec", "claimRef")):
            if reason := mismatch(volume, claim, self._names):
                self._report(claim, "Warning", "VolumeMismatch", f'Cannot bind to requested volume "{name}": {reason}')
                await self._set_pending(claim)
            else:
                await self._bind(volume, claim)
        elif is_bound_to(volume, claim):
            await self._bind(volume, claim)
        else:
            self._report(claim, "Warning", "FailedBinding", f'volume "{name}" already bound to a different claim.')
            await self._set_pending(claim)

    async def _sync_unbound(self, key: str, claim: Object) -> None:
        delayed = delays_binding(claim, self._state.classes, self._names)
        volume = find_match(claim, self._state.volumes.values(), self._names, delayed=delayed)
        if volume is not None:
            await self._bind(volume, claim)
            return
        if await self._assign_default_class(claim):
            return
        if delayed and self._names.selected_node not in annotations_of(claim):
            self._report(claim, "Normal", *self._waits_for(key))
        elif class_of(claim, self._names):
            await self._request_volume(claim)
        else:
            self._report(claim, "Normal", "FailedBinding", _NO_CLASS)
        await self._set_pending(claim)

    def _waits_for(self, key: str) -> tuple[str, str]:
        pods = sorted(name.rpartition("/")[2] for name in self._waiting.get(key, ()))
        if not pods:
            return "WaitForFirstConsumer", "waiting for first consumer to be created before binding"
        noun = "pods" if len(pods) > 1 else "pod"
        return "WaitForPodScheduled", f"waiting for {noun} {','.join(pods)} to be scheduled"

    async def _request_volume(self, claim: Object) -> None:
        """Request a volume of the storage class from its provisioner."""
        name = class_of(claim, self._names)
        found = self._state.classes.get(name)
        if found is None:
            group = self._identity.group("storage")
            self._report(claim, "Warning", "ProvisioningFailed", f'storageclass.{group} "{name}" not found')
            return
        provisioner = found.get("provisioner") or ""
        in_tree = provisioner.removeprefix(f"{self._identity.label_domain}/")
        if in_tree != provisioner:
            if in_tree not in _MIGRATED:
                text = f"no volume plugin matched name: {provisioner}"
                self._report(claim, "Warning", "ProvisioningFailed", text)
                return
            provisioner = _MIGRATED[in_tree]

        def edit(obj: Object) -> None:
            annotate(obj, self._names.beta_storage_provisioner, provisioner)
            annotate(obj, self._names.storage_provisioner, provisioner)

        await change(self._store, CLAIMS, claim, edit)
        self._report(claim, "Normal", "ExternalProvisioning", _EXTERNAL.format(provisioner))

    async def _assign_default_class(self, claim: Object) -> bool:
        """Assign the default storage class to a claim that was created before it; return whether that was done."""
        if dig(claim, ("spec", "storageClassName")) is not None or self._names.storage_class in annotations_of(claim):
            return False
        defaults = [
            item
            for item in self._state.classes.values()
            if any(annotations_of(item).get(name) == "true" for name in self._default_class)
        ]
        if not defaults:
            return False
        defaults.sort(key=lambda item: str(item["metadata"]["name"]))
        latest = max(defaults, key=lambda item: str(item["metadata"].get("creationTimestamp")))

        def edit(obj: Object) -> None:
            if dig(obj, ("spec", "storageClassName")) is None:
                obj["spec"]["storageClassName"] = latest["metadata"]["name"]

        await change(self._store, CLAIMS, claim, edit)
        return True

    async def _bind(self, volume: Object, claim: Object) -> None:
        """Bind both; repeated until all four writes were made, so a partial binding is completed later."""
        if not await reserve(self._store, volume, claim, self._names):
            return
        if await set_phase(self._store, volume, "Bound") is None:
            return
        name, names = volume["metadata"]["name"], self._names

        def bind(obj: Object) -> None:
            if obj["spec"].get("volumeName") not in (None, "", name):
                return
            if obj["spec"].get("volumeName") != name:
                obj["spec"]["volumeName"] = name
                annotate(obj, names.bound_by_controller, "yes")
            annotate(obj, names.bind_completed, "yes")
            status = obj.setdefault("status", {})
            status["accessModes"] = dig(volume, ("spec", "accessModes")) or []
            if status.get("phase") != "Bound":
                status["phase"] = "Bound"
                status["capacity"] = dict(dig(volume, ("spec", "capacity")) or {})

        await change(self._store, CLAIMS, claim, bind)

    async def _lose(self, claim: Object, reason: str, message: str) -> None:
        if dig(claim, ("status", "phase")) == "Lost":
            return
        await self._set_status(claim, "Lost")
        self._report(claim, "Warning", reason, message)

    async def _set_pending(self, claim: Object) -> None:
        await self._set_status(claim, "Pending")

    async def _set_status(self, claim: Object, phase: str) -> None:
        def edit(obj: Object) -> None:
            status = obj.setdefault("status", {})
            status["phase"] = phase
            status.pop("accessModes", None)
            status.pop("capacity", None)

        await change(self._store, CLAIMS, claim, edit)

    def _report(self, claim: Object, kind: str, reason: str, note: str) -> None:
        self._events.record(claim, kind, reason, reason, note)

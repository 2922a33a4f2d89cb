"""Expansion of volumes on the node, at the first mount and while a pod uses them."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from nodeagent.base.quantity import Quantity
from nodeagent.base.release import Release
from nodeagent.contracts.api import PERSISTENT_VOLUME_CLAIMS, Api
from nodeagent.contracts.events import EventType
from nodeagent.contracts.persistent_volumes import VolumeOnDisk, VolumeSpec
from nodeagent.errors import NodeAgentError, UncertainVolumeError, VolumeError
from nodeagent.model.meta import ObjectReference
from nodeagent.model.persistent_volume import PersistentVolumeClaim
from nodeagent_plugins.volumes.actual_state import DesiredMount, NodeVolume

if TYPE_CHECKING:
    from nodeagent.contracts.context import CgroupsContext

IN_USE, INFEASIBLE = "InUse", "Infeasible"
"""Reasons of errors of :meth:`ExpandableVolumeKind.expand` after which a retry is useless."""
_PENDING, _IN_PROGRESS = "NodeResizePending", "NodeResizeInProgress"
_NODE_FAILED, _NODE_INFEASIBLE = "NodeResizeFailed", "NodeResizeInfeasible"
_CONDITIONS_SINCE = Release(1, 32)
"""First release in which a failed expansion sets a condition of the claim and is repeated; earlier ones set the status
``NodeResizeFailed``, which ends it."""
_STORAGE = "storage"
_NOT_REQUIRED = "volume.kubernetes.io/node-expansion-not-required"
_FINISHED_CONDITIONS = ("Resizing", "FileSystemResizePending", "ControllerResizeError", "NodeResizeError")
_log = logging.getLogger(__name__)


class VolumeExpander:
    """Expands volumes and records the result in their claims."""

    def __init__(self, context: CgroupsContext) -> None:
        self._context = context
        self._recovery = context.gates.enabled("RecoverVolumeExpansionFailure")

    def is_due(self, volume: NodeVolume, desired: DesiredMount) -> bool:
        """Return whether a mounted volume is smaller than its claim, as known from the last pod sync."""
        spec = desired.spec
        if volume.features.expandable is None or spec.persistent_volume is None or spec.claim is None:
            return False
        size = capacity(spec)
        if size is None or volume.size is None or volume.size >= size or volume.expansion_stopped or spec.read_only:
            return False
        return not self._recovers(spec.claim) or _may_expand(spec.claim, self._target(spec.claim, size))

    async def expand_in_use(self, volume: NodeVolume, pod_uid: str) -> None:
        """Expand a mounted volume.

        :raises VolumeError: the volume was not expanded; an event was recorded.
        """
        desired, mount = volume.desired[pod_uid], volume.mounts[pod_uid]
        try:
            await self._expand(volume, desired, mount.volume)
        except NodeAgentError as error:
            note = f'NodeExpandVolume.NodeExpandVolume failed for volume "{desired.spec.name}" : {error}'
            self._context.recorder.record(desired.pod.reference(), EventType.WARNING, "VolumeResizeFailed", note)
            raise

    async def expand_at_mount(self, volume: NodeVolume, desired: DesiredMount, on_disk: VolumeOnDisk) -> None:
        """Expand a volume that is being mounted, if its claim is smaller than the PersistentVolume.

        :raises VolumeError: the volume was not expanded.
        """
        spec, api = desired.spec, self._context.api
        if volume.features.expandable is None or spec.claim is None or api is None:
            return
        size = capacity(spec)
        if size is None:
            return
        claim = await self._read(api, spec.claim)
        current = _quantity((claim.status.capacity or {}).get(_STORAGE))
        volume.size = current
        if current is None or current >= size:
            return
        await self._expand(volume, desired, on_disk, claim)

    async def _expand(
        self,
        volume: NodeVolume,
        desired: DesiredMount,
        on_disk: VolumeOnDisk,
        claim: PersistentVolumeClaim | None = None,
    ) -> None:
        spec, api = desired.spec, self._context.api
        kind = volume.features.expandable
        assert kind is not None and spec.claim is not None and api is not None
        size = capacity(spec)
        assert size is not None
        if spec.read_only:
            note = f'MountVolume.NodeExpandVolume failed for volume "{spec.name}" requested read-only file system'
            self._record(desired, EventType.WARNING, "FileSystemResizeFailed", note)
            volume.size = size
            return
        claim = claim or await self._read(api, spec.claim)
        recovers = self._recovers(claim)
        target = self._target(claim, size) if recovers else size
        if recovers:
            if not _may_expand(claim, target):
                desired.spec = replace(spec, claim=claim)  # Until the next pod sync.
                return
            if _resize_status(claim) == _PENDING:
                claim = await self._begin(api, claim)
        try:
            expanded = await kind.expand(on_disk, spec, target)
        except VolumeError as error:
            if recovers and not isinstance(error, UncertainVolumeError):
                await self._failed(api, volume, claim, target, error)
            if error.reason == IN_USE:
                volume.expansion_stopped = True
                return  # The controller has grown the device; the file system grows at the next mount.
            raise
        if expanded:
            note = f'MountVolume.NodeExpandVolume succeeded for volume "{spec.name}" {self._context.node_name}'
            self._record(desired, EventType.NORMAL, "FileSystemResizeSuccessful", note)
            await self._finish(api, claim, spec, target)
        volume.size, volume.expansion_failed = target, False

    async def _begin(self, api: Api, claim: PersistentVolumeClaim) -> PersistentVolumeClaim:
        try:
            return await self._patch(api, claim, _status_patch(_IN_PROGRESS))
        except NodeAgentError as error:
            attempt = "MountVolume.NodeExpandVolume failed to mark node expansion in progress"
            raise VolumeError(f"{attempt}: {error}") from error

    async def _failed(
        self, api: Api, volume: NodeVolume, claim: PersistentVolumeClaim, target: int, error: VolumeError
    ) -> None:
        """Record in the claim that an expansion has certainly failed.

        If it can never succeed, or the user has requested another size since it failed first, the controller has to
        decide on the next size.
        """
        request = claim.spec.resources.requests if claim.spec.resources is not None else None
        changed = _quantity((request or {}).get(_STORAGE)) != target
        infeasible = error.reason == INFEASIBLE or (changed and volume.expansion_failed)
        volume.expansion_failed = True
        status: dict[str, Any] = {}
        if self._context.release.release < _CONDITIONS_SINCE:
            status["allocatedResourceStatuses"] = {_STORAGE: _NODE_FAILED}
        else:
            message = f"failed to expand pvc with {error}"
            status["conditions"] = [{"type": "NodeResizeError", "status": "True", "message": message}]
            if infeasible:
                status["allocatedResourceStatuses"] = {_STORAGE: _NODE_INFEASIBLE}
        try:
            await self._patch(api, claim, {"status": status})
        except NodeAgentError as problem:
            _log.warning("Failed to update claim status", extra={"claim": _full_name(claim), "err": str(problem)})

    async def _finish(self, api: Api, claim: PersistentVolumeClaim, spec: VolumeSpec, size: int) -> None:
        """Record the new size in the claim, unless another node has done so."""
        current = _quantity((claim.status.capacity or {}).get(_STORAGE))
        if current is not None and current >= size:
            return
        assert spec.persistent_volume is not None
        text = str((spec.persistent_volume.spec.capacity or {}).get(_STORAGE, size))
        if _quantity(text) != size:
            text = str((claim.status.allocated_resources or {}).get(_STORAGE, size))
        present = {str(condition.get("type")) for condition in claim.status.conditions or ()}
        conditions = [{"$patch": "delete", "type": name} for name in _FINISHED_CONDITIONS if name in present]
        status: dict[str, Any] = {"capacity": {_STORAGE: text}}
        if conditions:
            status["conditions"] = conditions
        if claim.status.allocated_resource_statuses:
            status["allocatedResourceStatuses"] = {_STORAGE: None}
        await self._patch(api, claim, {"status": status})

    async def _patch(self, api: Api, claim: PersistentVolumeClaim, patch: Mapping[str, Any]) -> PersistentVolumeClaim:
        """Patch the status on condition that the claim has not changed; return the latest claim."""
        body = {**patch, "metadata": {"resourceVersion": claim.metadata.resource_version}}
        name, namespace = claim.metadata.name, claim.metadata.namespace
        await api.patch(PERSISTENT_VOLUME_CLAIMS, name, body, namespace, subresource="status", decode=False)
        return await self._read(api, claim)

    async def _read(self, api: Api, claim: PersistentVolumeClaim) -> PersistentVolumeClaim:
        name, namespace = claim.metadata.name, claim.metadata.namespace
        return await api.get(PERSISTENT_VOLUME_CLAIMS, name, namespace, into=PersistentVolumeClaim)

    def _target(self, claim: PersistentVolumeClaim, size: int) -> int:
        """Return the new size of a volume whose expansion can be recovered.

        :param size: size of the PersistentVolume.
        """
        if self._context.release.release < _CONDITIONS_SINCE:
            return size
        return _quantity((claim.status.allocated_resources or {}).get(_STORAGE)) or size

    def _recovers(self, claim: PersistentVolumeClaim) -> bool:
        used = bool(claim.status.allocated_resources or claim.status.allocated_resource_statuses)
        return self._recovery and used

    def _record(self, desired: DesiredMount, kind: EventType, reason: str, note: str) -> None:
        self._context.recorder.record(desired.pod.reference(), kind, reason, note)
        if (claim := desired.spec.claim) is not None:
            self._context.recorder.record(claim_reference(claim), kind, reason, note)


def capacity(spec: VolumeSpec) -> int | None:
    """Return the size of the PersistentVolume in bytes; ``None`` without a valid one."""
    volume = spec.persistent_volume
    return _quantity((volume.spec.capacity or {}).get(_STORAGE)) if volume is not None else None


def claim_size(claim: PersistentVolumeClaim | None) -> int | None:
    """Return the size in the status of a claim, in bytes; ``None`` without a valid one."""
    return _quantity((claim.status.capacity or {}).get(_STORAGE)) if claim is not None else None


def claim_reference(claim: PersistentVolumeClaim) -> ObjectReference:
    """Return a reference to a claim, for events."""
    meta = claim.metadata
    return ObjectReference(
        kind="PersistentVolumeClaim", namespace=meta.namespace, name=meta.name, uid=meta.uid, api_version="v1"
    )


def _may_expand(claim: PersistentVolumeClaim, target: int) -> bool:
    """Return whether the controller has left the expansion to *target* bytes to the node."""
    if _resize_status(claim) in (_PENDING, _IN_PROGRESS):
        return True
    # Another node has recorded the expansion of a shared volume; this node's file system may still be small.
    shared = "ReadWriteMany" in (claim.spec.access_modes or ())
    recorded = not _resize_status(claim) and (claim_size(claim) or 0) >= target
    return shared and recorded and _NOT_REQUIRED not in (claim.metadata.annotations or {})


def _resize_status(claim: PersistentVolumeClaim) -> str:
    return (claim.status.allocated_resource_statuses or {}).get(_STORAGE, "")


def _status_patch(status: str) -> dict[str, Any]:
    return {"status": {"allocatedResourceStatuses": {_STORAGE: status}}}


def _quantity(text: object) -> int | None:
    if not text:
        return None
    try:
        return Quantity.parse(str(text)).value()
    except ValueError:
        return None


def _full_name(claim: PersistentVolumeClaim) -> str:
    return f"{claim.metadata.namespace}/{claim.metadata.name}"

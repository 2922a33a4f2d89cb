"""Resolver of claims: reads the claim and its PersistentVolume with the permissions of the node."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from nodeagent.contracts.api import PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES, Api
from nodeagent.contracts.persistent_volumes import VolumeMode, VolumeSpec
from nodeagent.errors import ApiError, TransientVolumeError, VolumeError
from nodeagent.model.persistent_volume import PersistentVolume, PersistentVolumeClaim
from nodeagent.model.pod import Pod, Volume
from nodeagent.model.qos import is_static_or_mirror
from nodeagent_plugins.persistent_claims.checks import check_bound, check_claim, check_mode, check_owner
from nodeagent_plugins.persistent_claims.migration import to_csi, volume_to_csi


class Resolver:
    """Implements :class:`~nodeagent.contracts.persistent_volumes.ClaimResolver`.

    Claims are read on every call, without a cache: right after a pod was bound, the API server may still deny the node
    access to them, and such a denial must not be cached. The PersistentVolume of a mounted volume is read again if its
    claim has changed, as it does when a controller expands the volume.
    """

    def __init__(self, api: Api | None) -> None:
        self._api = api

    async def resolve(self, pod: Pod, volume: Volume, known: VolumeSpec | None = None) -> VolumeSpec:
        """Return the volume with its source.

        :raises TransientVolumeError: the claim or its PersistentVolume cannot be read.
        :raises VolumeError: the claim cannot be used by *pod*.
        """
        if volume.persistent_volume_claim is not None:
            source = volume.persistent_volume_claim
            read_only = bool(source.get("readOnly"))
            return await self._of_claim(pod, volume, source.get("claimName", ""), read_only, known)
        if volume.ephemeral is not None:
            return await self._of_claim(pod, volume, f"{pod.name}-{volume.name}", False, known)
        return _inline(pod, volume)

    async def _of_claim(
        self, pod: Pod, volume: Volume, name: str, read_only: bool, known: VolumeSpec | None
    ) -> VolumeSpec:
        if self._api is None or is_static_or_mirror(pod):
            raise VolumeError(
                f"error processing PVC {pod.namespace}/{name}: static pods cannot use PersistentVolumeClaims"
            )
        try:
            claim = await self._claim(self._api, pod.namespace, name)
            check_claim(claim)
        except VolumeError as error:
            raise _prefixed(error, pod, name) from error
        if volume.ephemeral is not None:
            check_owner(claim, pod)
        if known is not None and _is_unchanged(known.claim, claim):
            return replace(known, volume=volume, claim=claim, read_only=read_only)
        try:
            pv = await self._volume(self._api, claim.spec.volume_name)
            check_bound(pv, claim)
        except VolumeError as error:
            raise _prefixed(error, pod, name) from error
        translated = to_csi(pv)
        migrated, pv = translated is not pv, translated
        mode = VolumeMode.BLOCK if pv.spec.volume_mode == VolumeMode.BLOCK else VolumeMode.FILESYSTEM
        check_mode(pod, volume.name, mode)
        return VolumeSpec(pv.metadata.name, volume, pv, claim, read_only, mode, migrated)

    @staticmethod
    async def _claim(api: Api, namespace: str, name: str) -> PersistentVolumeClaim:
        try:
            return await api.get(PERSISTENT_VOLUME_CLAIMS, name, namespace, into=PersistentVolumeClaim)
        except ApiError as error:
            raise TransientVolumeError(f"failed to fetch PVC from API server: {error}") from error

    @staticmethod
    async def _volume(api: Api, name: str) -> PersistentVolume:
        try:
            return await api.get(PERSISTENT_VOLUMES, name, into=PersistentVolume)
        except ApiError as error:
            raise TransientVolumeError(f"failed to fetch PV {name} from API server: {error}") from error


def _is_unchanged(known: PersistentVolumeClaim | None, claim: PersistentVolumeClaim) -> bool:
    version = claim.metadata.resource_version
    return (
        known is not None
        and bool(version)
        and (known.metadata.uid, known.metadata.resource_version) == (claim.metadata.uid, version)
    )


def _inline(pod: Pod, volume: Volume) -> VolumeSpec:
    read_only = _read_only(volume)
    pv = volume_to_csi(volume, pod.namespace)
    if pv is None:
        return VolumeSpec(volume.name, volume, read_only=read_only)
    # The name becomes a directory; names of migrated Azure disks contain slashes.
    return VolumeSpec(pv.metadata.name.replace("/", "~"), volume, pv, read_only=read_only, migrated=True)


def _read_only(volume: Volume) -> bool:
    """Return whether the inline source itself is read-only."""
    plain: tuple[dict[str, Any] | None, ...] = (
        volume.csi,
        volume.nfs,
        volume.iscsi,
        volume.fc,
        volume.aws_elastic_block_store,
        volume.azure_disk,
        volume.azure_file,
        volume.cinder,
        volume.gce_persistent_disk,
        volume.portworx_volume,
    )
    if volume.flex_volume is not None:
        return volume.flex_volume.read_only
    return any(source.get("readOnly") is True for source in plain if source is not None)


def _prefixed(error: VolumeError, pod: Pod, claim: str) -> VolumeError:
    return type(error)(f"error processing PVC {pod.namespace}/{claim}: {error}")

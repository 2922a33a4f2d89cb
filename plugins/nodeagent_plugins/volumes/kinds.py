"""Kinds of volumes: lookup by source and by directory, and the adapter for kinds without PersistentVolumes."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec

from nodeagent.contracts.persistent_volumes import (
    MountRequest,
    PersistentVolumeKind,
    VolumeMode,
    VolumeOnDisk,
    VolumeSpec,
)
from nodeagent.contracts.volumes import DriverVolumeKind, MountedVolume, RefreshableVolumeKind, VolumeKind
from nodeagent.errors import NodeAgentError, PluginError, VolumeError
from nodeagent.model.persistent_volume import PersistentVolume, PersistentVolumeSpec
from nodeagent.model.pod import Pod, Volume
from nodeagent_plugins.volumes.features import features_of
from nodeagent_plugins.volumes.metrics import plugin_name

SETUP_SECONDS = 120.0
"""Time limit of the setup and of the teardown of a volume; less than a pod sync waits for its volumes."""
_FIELDS = {field.name: field.encode_name for field in msgspec.structs.fields(Volume)}
_SPEC_FIELDS = [field.name for field in msgspec.structs.fields(PersistentVolumeSpec)]
_PERSISTENT_SOURCES = {
    field.name: field.encode_name
    for field in msgspec.structs.fields(PersistentVolumeSpec)
    if _SPEC_FIELDS.index(field.name) > _SPEC_FIELDS.index("node_affinity")  # The sources are the last fields.
}
_log = logging.getLogger(__name__)


class AdaptedKind:
    """A :class:`VolumeKind` in the form of a :class:`PersistentVolumeKind` without devices.

    PersistentVolumes of FlexVolume drivers have the same form as volumes of pods; all others are not supported.
    """

    def __init__(self, kind: VolumeKind) -> None:
        self.replace(kind)

    def replace(self, kind: VolumeKind) -> None:
        """Use *kind* from now on, also for the volumes that exist."""
        self.name, self._kind = kind.name, kind
        self._plugin = plugin_name(kind.name)
        self._driver = kind if isinstance(kind, DriverVolumeKind) else None
        self._refreshable = kind if isinstance(kind, RefreshableVolumeKind) else None

    def adapts(self, kind: VolumeKind) -> bool:
        """Return whether this is the adapter of *kind*."""
        return self._kind is kind

    def supports(self, spec: VolumeSpec) -> bool:
        volume = inline_volume(spec)
        return volume is not None and self._kind.supports(volume)

    def handles(self, volume: Volume) -> bool:
        """Return whether the kind supports a volume of a pod spec; false if its plugin fails."""
        try:
            return self._kind.supports(volume)
        except PluginError:
            return False

    def plugin_name(self, spec: VolumeSpec) -> str:
        return self._plugin

    def directory_name(self, spec: VolumeSpec) -> str:
        """Return the name of the directory that contains the volume's directory."""
        volume = inline_volume(spec)
        return self._driver.directory_name(volume) if self._driver is not None and volume is not None else self.name

    def owns(self, directory: Path) -> bool:
        """Return whether a directory that is not named after a kind belongs to a driver of this kind. Blocking."""
        return self._driver is not None and self._driver.owns(directory)

    async def mount(self, request: MountRequest) -> MountedVolume:
        try:
            async with asyncio.timeout(SETUP_SECONDS):
                volume = inline_volume(request.spec) or request.spec.volume
                mounted = await self._kind.setup(request.pod, volume, request.directory)
            if not isinstance(mounted, MountedVolume):
                raise TypeError(f"setup returned {mounted!r:.80}, not a MountedVolume")
        except TimeoutError as error:
            raise VolumeError(f"not ready after {SETUP_SECONDS:.0f} s") from error
        except (NodeAgentError, OSError):
            raise
        except Exception as error:  # A bug in a third-party plugin: the pod waits and reports the plugin.
            fields = {"kind": self.name, "volume": request.spec.name, "err": str(error)}
            _log.exception("Volume plugin failed", extra=fields)
            raise VolumeError(f"volume plugin {self.name} failed: {error!r}") from error
        return mounted

    async def needs_refresh(self, pod: Pod, volume: Volume, directory: Path) -> bool:
        """Return whether a mounted volume of a pod has to be set up again; true if that cannot be determined."""
        if self._refreshable is None:
            return True
        try:
            async with asyncio.timeout(SETUP_SECONDS):
                return await self._refreshable.needs_refresh(pod, volume, directory)
        except Exception:  # The setup reports the error.
            return True

    async def unmount(self, volume: VolumeOnDisk) -> None:
        try:
            async with asyncio.timeout(SETUP_SECONDS):
                await self._kind.teardown(volume.pod_uid, volume.directory)
        except TimeoutError as error:
            raise VolumeError(f"not removed after {SETUP_SECONDS:.0f} s") from error

    def reconstruct(self, pod_uid: str, directory: Path, mode: VolumeMode) -> VolumeOnDisk:
        return VolumeOnDisk(pod_uid, directory.name, directory, mode)


class Kinds:
    """The kinds of this node, in order of precedence."""

    def __init__(self, kinds: Sequence[VolumeKind], persistent: Sequence[PersistentVolumeKind]) -> None:
        self.adapted = [AdaptedKind(kind) for kind in kinds]
        self.persistent = list(persistent)

    def adapted_for(self, spec: VolumeSpec) -> AdaptedKind | None:
        """Return the first adapted kind that supports a volume, ``None`` if none does."""
        return next((kind for kind in self.adapted if _supports(kind, spec, [])), None)

    def replace(
        self, removed: Sequence[VolumeKind], added: Sequence[VolumeKind], users: Callable[[AdaptedKind], Sequence[str]]
    ) -> None:
        """Replace kinds; the adapter of a kind with the same name stays, because volumes refer to it.

        :param users: returns the pods with volumes of a kind.
        :raises VolumeError: a kind that is not replaced has users.
        """
        present = {each.name: each for each in self.adapted if any(each.adapts(kind) for kind in removed)}
        names = {kind.name for kind in added}
        gone = [each for each in present.values() if each.name not in names]
        for each in gone:
            if pods := users(each):
                raise VolumeError(f"pods use volumes of kind {each.name}: {', '.join(pods)}")
        self.adapted = [each for each in self.adapted if each not in gone]
        for kind in added:
            if kind.name in present:
                present[kind.name].replace(kind)
            else:
                self.adapted.insert(0, AdaptedKind(kind))

    def of(self, spec: VolumeSpec) -> PersistentVolumeKind:
        """Return the kind of a volume.

        :raises VolumeError: no kind supports it; the message has the errors of plugins that failed.
        """
        failures: list[str] = []
        for kind in (*self.adapted, *self.persistent):
            if _supports(kind, spec, failures):
                return kind
        reasons = "".join(f"; {failure}" for failure in failures)
        if spec.persistent_volume is None:
            raise VolumeError(f"volumes of type {source_of(spec.volume)} are not supported on this node{reasons}")
        raise VolumeError(
            f'failed to get Plugin from volumeSpec for volume "{spec.name}" err=no volume plugin matched: '
            f"type {source_of_persistent_volume(spec.persistent_volume)} is not supported on this node{reasons}"
        )

    def owner(self, directory: Path) -> PersistentVolumeKind | None:
        """Return the kind of a volume's directory, possibly from before a restart; ``None`` if unknown. Blocking."""
        name = directory.parent.name
        for kind in (*self.persistent, *self.adapted):
            if kind.name == name:
                return kind
        return next((kind for kind in self.adapted if _owns(kind, directory)), None)


def _supports(kind: PersistentVolumeKind, spec: VolumeSpec, failures: list[str]) -> bool:
    """Return whether a kind supports a volume; the failure of a plugin must not affect other volumes."""
    try:
        return kind.supports(spec)
    except PluginError as error:
        failures.append(str(error))
        return False


def _owns(kind: AdaptedKind, directory: Path) -> bool:
    try:
        return kind.owns(directory)
    except PluginError:  # Logged where it is raised; the volume is not removed.
        return False


def inline_volume(spec: VolumeSpec) -> Volume | None:
    """Return a volume in the form of a pod's volume; ``None`` if its source has no such form."""
    if spec.persistent_volume is None:
        return spec.volume
    source = spec.persistent_volume.spec.flex_volume
    if source is None:
        return None
    return Volume(name=spec.name, flex_volume=msgspec.structs.replace(source, read_only=spec.read_only))


def unique_name(kind: PersistentVolumeKind, spec: VolumeSpec, pod_uid: str) -> str:
    """Return the name of a volume on this node; a volume without a device step exists once per pod."""
    device = features_of(kind).device if not isinstance(kind, AdaptedKind) else None
    name = device.unique_name(spec) if device is not None else ""
    return name or pod_volume_name(kind, pod_uid, spec.name)


def pod_volume_name(kind: PersistentVolumeKind, pod_uid: str, name: str) -> str:
    """Return the unique name of a volume that belongs to one pod."""
    return f"{plugin_name(kind.name)}/{pod_uid}-{name}"


def shared_name(kind: PersistentVolumeKind, name: str, volume: VolumeOnDisk) -> str:
    """Return the unique name *name* for the state on disk of *volume*: empty if it belongs to one pod."""
    return "" if name == pod_volume_name(kind, volume.pod_uid, volume.name) else name


def source_of_persistent_volume(volume: PersistentVolume) -> str:
    """Return the JSON name of the source that *volume* has."""
    given = [wire for name, wire in _PERSISTENT_SOURCES.items() if getattr(volume.spec, name) is not None]
    return given[0] if given else "unknown"


def source_of(volume: Volume) -> str:
    """Return the JSON name of the source that *volume* has."""
    given = [wire for name, wire in _FIELDS.items() if name != "name" and getattr(volume, name) is not None]
    return given[0] if given else "unknown"

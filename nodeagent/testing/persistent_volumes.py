"""Fake kind of persistent volumes with devices and attachment, and a fake resolver of claims."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from nodeagent.contracts.persistent_volumes import (
    DeviceOnDisk,
    MountRequest,
    VolumeFigures,
    VolumeMode,
    VolumeOnDisk,
    VolumeSpec,
)
from nodeagent.contracts.volumes import MountedVolume
from nodeagent.errors import UncertainVolumeError, VolumeError
from nodeagent.model.meta import ObjectMeta, ObjectReference
from nodeagent.model.persistent_volume import (
    CsiPersistentVolumeSource,
    PersistentVolume,
    PersistentVolumeClaim,
    PersistentVolumeClaimSpec,
    PersistentVolumeClaimStatus,
    PersistentVolumeSpec,
)
from nodeagent.model.pod import Pod, Volume
from nodeagent.testing.faults import Faults

DRIVER = "fake.example"


class FakePersistentKind(Faults):
    """A kind that keeps its state in files below the root directory, so that another instance continues after a crash.

    Faults of ``mount`` and the other calls occur before the effect, those of ``mount.after`` after it. A call that
    violates the order of a driver is listed in :attr:`violations`.

    :param root: the root directory of the agent.
    :param needed: returns whether a pod still needs its volumes, for the check of unmounts.
    """

    name = "kubernetes.io~fake"
    supports_block = True

    def __init__(self, root: Path, needed: Callable[[str], bool] = lambda pod_uid: False) -> None:
        super().__init__()
        self._root, self._needed = root, needed
        self.needs_attach = False
        self.limit_reached = False
        self.requested: set[str] = set()
        """Handles of the volumes for which :meth:`wait_for_attach` was called."""
        self.refreshes = False
        self.calls: list[tuple[str, str]] = []
        """Calls with an effect: method and volume handle."""
        self.requests: list[MountRequest] = []
        """Requests of all calls of :meth:`mount_device` and :meth:`mount`."""
        self.expanded: list[int] = []
        self.violations: list[str] = []

    def supports(self, spec: VolumeSpec) -> bool:
        source = spec.persistent_volume
        return source is not None and source.spec.csi is not None and source.spec.csi.driver == DRIVER

    def plugin_name(self, spec: VolumeSpec) -> str:
        return f"kubernetes.io/fake:{DRIVER}"

    def unique_name(self, spec: VolumeSpec) -> str:
        return f"kubernetes.io/fake/{DRIVER}^{_handle(spec)}"

    async def attachable(self, spec: VolumeSpec) -> bool:
        return self.needs_attach

    async def wait_for_attach(self, spec: VolumeSpec, device_path: str) -> str:
        await self._pass("wait_for_attach")
        self.requested.add(_handle(spec))
        return device_path or "attachment"

    async def attachments(self) -> Sequence[str]:
        await self._pass("attachments")
        return sorted(f"kubernetes.io/fake/{DRIVER}^{handle}" for handle in self.requested)

    async def detach(self, unique_name: str) -> None:
        handle = unique_name.rpartition("^")[2]
        await self._pass("detach")
        if (self._staging(handle) / "staged").exists():
            self.violations.append(f"detached {handle} while staged")
        self.calls.append(("detach", handle))
        self.requested.discard(handle)

    async def limit_exceeded(self, spec: VolumeSpec) -> bool:
        await self._pass("limit_exceeded")
        return self.limit_reached

    async def supports_label(self, spec: VolumeSpec) -> bool:
        await self._pass("supports_label")
        return True

    async def needs_refresh(self, spec: VolumeSpec) -> bool:
        return self.refreshes

    async def mount_device(self, request: MountRequest) -> DeviceOnDisk:
        self.requests.append(request)
        handle, staging = _handle(request.spec), self._staging(_handle(request.spec))
        staging.mkdir(parents=True, exist_ok=True)
        await self._pass("mount_device")
        (staging / "staged").touch()
        self.calls.append(("mount_device", handle))
        await self._pass("mount_device.after")
        return replace(self._device(staging), mode=request.spec.mode)

    async def unmount_device(self, device: DeviceOnDisk) -> None:
        handle = device.path.name
        await self._pass("unmount_device")
        if users := self._users(handle):
            self.violations.append(f"unstaged {handle} while mounted for {users}")
        self.calls.append(("unmount_device", handle))
        (device.path / "staged").unlink(missing_ok=True)
        await self._pass("unmount_device.after")
        if device.path.exists():
            device.path.rmdir()

    def devices_on_disk(self) -> Sequence[DeviceOnDisk]:
        return [self._device(path) for path in sorted(self._plugin.glob("*"))]

    async def mount(self, request: MountRequest) -> MountedVolume:
        self.requests.append(request)
        handle, directory = _handle(request.spec), request.directory
        await self._pass("mount")
        if not (self._staging(handle) / "staged").exists():
            self.violations.append(f"mounted {handle} before it was staged")
        directory.mkdir(exist_ok=True)
        (directory / "handle").write_text(handle)
        self.calls.append(("refresh" if request.remount else "mount", handle))
        await self._pass("mount.after")
        device = str(directory) if request.spec.mode is VolumeMode.BLOCK else ""
        return MountedVolume(request.spec.volume.name, str(directory), request.spec.read_only, device_path=device)

    async def unmount(self, volume: VolumeOnDisk) -> None:
        await self._pass("unmount")
        if self._needed(volume.pod_uid):
            self.violations.append(f"unmounted {volume.name} of running pod {volume.pod_uid}")
        self.calls.append(("unmount", volume.unique_name.rpartition("^")[2]))
        (volume.directory / "handle").unlink(missing_ok=True)
        await self._pass("unmount.after")
        if volume.directory.exists():
            volume.directory.rmdir()

    def reconstruct(self, pod_uid: str, directory: Path, mode: VolumeMode) -> VolumeOnDisk:
        file = directory / "handle"
        if not any(directory.iterdir()):
            return VolumeOnDisk(pod_uid, directory.name, directory, mode)
        try:
            handle = file.read_text()
        except OSError as error:
            raise VolumeError(f"cannot read {file}: {error.strerror}") from error
        return VolumeOnDisk(pod_uid, directory.name, directory, mode, f"kubernetes.io/fake/{DRIVER}^{handle}")

    async def expand(self, volume: VolumeOnDisk, spec: VolumeSpec, size: int) -> bool:
        await self._pass("expand")
        self.expanded.append(size)
        return True

    async def measure(self, volume: VolumeOnDisk, spec: VolumeSpec) -> VolumeFigures | None:
        await self._pass("measure")
        return VolumeFigures(available=1, capacity=3, used=2)

    def published(self) -> list[Path]:
        """Return the volume directories that are mounted for pods."""
        return [path.parent for path in _find(self._root, f"pods/*/volume*/{self.name}/*/handle")]

    def staged(self) -> list[str]:
        """Return the unique names of the staged volumes."""
        return [f"kubernetes.io/fake/{DRIVER}^{path.parent.name}" for path in _find(self._plugin, "*/staged")]

    @property
    def _plugin(self) -> Path:
        return self._root / "plugins/kubernetes.io/fake"

    def _staging(self, handle: str) -> Path:
        return self._plugin / handle

    def _device(self, path: Path) -> DeviceOnDisk:
        return DeviceOnDisk(f"kubernetes.io/fake/{DRIVER}^{path.name}", path.name, path)

    def _users(self, handle: str) -> list[str]:
        return [str(path) for path in self.published() if (path / "handle").read_text() == handle]


def _find(directory: Path, pattern: str) -> list[Path]:
    """Return the sorted paths that match; the volume manager removes directories in threads at the same time."""
    while True:
        with contextlib.suppress(FileNotFoundError):
            return sorted(directory.glob(pattern))


class FakeClaims(Faults):
    """A :class:`~nodeagent.contracts.persistent_volumes.ClaimResolver` with the claims that a test adds."""

    def __init__(self) -> None:
        super().__init__()
        self.specs: dict[str, VolumeSpec] = {}
        """By name of the claim."""
        self.known: list[VolumeSpec | None] = []
        """Source of the mounted volume in each call; ``None`` if the PersistentVolume has to be read."""

    def add(
        self,
        claim: str,
        *,
        size: str = "1Gi",
        claim_size: str | None = None,
        access_modes: Sequence[str] = ("ReadWriteOnce",),
        block: bool = False,
        read_only: bool = False,
        annotations: dict[str, str] | None = None,
        **spec: object,
    ) -> VolumeSpec:
        """Add a bound claim with the PersistentVolume ``pv-<claim>`` of the fake kind, and return it."""
        name = f"pv-{claim}"
        persistent = PersistentVolume(
            ObjectMeta(name=name, annotations=annotations),
            PersistentVolumeSpec(
                capacity={"storage": size},
                access_modes=list(access_modes),
                claim_ref=ObjectReference(name=claim, namespace="default", uid=f"uid-{claim}"),
                **{"csi": CsiPersistentVolumeSource(DRIVER, claim), **spec},  # type: ignore[arg-type]
            ),
        )
        bound = PersistentVolumeClaim(
            ObjectMeta(name=claim, namespace="default", uid=f"uid-{claim}", resource_version="1"),
            PersistentVolumeClaimSpec(volume_name=name, access_modes=list(access_modes)),
            PersistentVolumeClaimStatus("Bound", capacity={"storage": claim_size or size}),
        )
        mode = VolumeMode.BLOCK if block else VolumeMode.FILESYSTEM
        self.specs[claim] = VolumeSpec(name, Volume(name=claim), persistent, bound, read_only, mode)
        return self.specs[claim]

    async def resolve(self, pod: Pod, volume: Volume, known: VolumeSpec | None = None) -> VolumeSpec:
        await self._pass("resolve")
        self.known.append(known)
        if volume.persistent_volume_claim is None:
            return VolumeSpec(volume.name, volume)
        name = str(volume.persistent_volume_claim.get("claimName"))
        spec = self.specs.get(name)
        if spec is None:
            raise VolumeError(f"error processing PVC {pod.namespace}/{name}: PVC is not bound")
        await asyncio.sleep(0)
        return VolumeSpec(spec.name, volume, spec.persistent_volume, spec.claim, spec.read_only, spec.mode)


def uncertain(text: str = "rpc error: code = DeadlineExceeded desc = fake") -> UncertainVolumeError:
    """Return the error of a call that may have taken effect."""
    return UncertainVolumeError(text)


def _handle(spec: VolumeSpec) -> str:
    assert spec.persistent_volume is not None and spec.persistent_volume.spec.csi is not None
    return spec.persistent_volume.spec.csi.volume_handle

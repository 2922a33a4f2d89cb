"""Container status fields that depend on the runtime: user, volume mounts and health of devices. No I/O."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from nodeagent.contracts.devices import DeviceHealth
from nodeagent.contracts.runtime import RuntimeContainerStatus
from nodeagent.model.pod import (
    Container,
    ContainerUser,
    ImageVolumeStatus,
    LinuxContainerUser,
    ResourceHealth,
    ResourceStatus,
    VolumeMountStatus,
    VolumeStatus,
)

_ENABLED, _DISABLED = "Enabled", "Disabled"


def user_status(run: RuntimeContainerStatus) -> ContainerUser | msgspec.UnsetType:
    """Return the user of the container's process, if the runtime reports it."""
    if run.user is None:
        return msgspec.UNSET
    groups = list(run.user.supplemental_groups) or msgspec.UNSET
    return ContainerUser(linux=LinuxContainerUser(uid=run.user.uid, gid=run.user.gid, supplemental_groups=groups))


def device_statuses(devices: Mapping[str, Sequence[DeviceHealth]]) -> list[ResourceStatus] | msgspec.UnsetType:
    """Return the health of a container's devices.

    :param devices: health by resource.
    """
    statuses = [
        ResourceStatus(
            name=name,
            resources=[
                ResourceHealth(resource_id=each.device_id, health=each.health, message=each.message) for each in health
            ],
        )
        for name, health in sorted(devices.items())
    ]
    return statuses or msgspec.UNSET


def volume_mount_statuses(
    container: Container, run: RuntimeContainerStatus | None, *, image_refs: bool = False
) -> list[VolumeMountStatus] | msgspec.UnsetType:
    """Return the status of the container's mounts.

    :param run: the latest run; without one, no mount is recursively read-only.
    :param image_refs: report the images of image volumes.
    """
    mounts = run.mounts if run else ()
    recursive = {mount.container_path for mount in mounts if mount.recursive_readonly}
    images = {mount.container_path: mount.image.image for mount in mounts if mount.image} if image_refs else {}
    statuses = [
        VolumeMountStatus(
            name=mount.name,
            mount_path=mount.mount_path,
            read_only=mount.read_only,
            recursive_read_only=(_ENABLED if _absolute(mount.mount_path) in recursive else _DISABLED)
            if mount.read_only
            else None,
            volume_status=_image_status(images.get(_absolute(mount.mount_path), "")),
        )
        for mount in container.volume_mounts or ()
    ]
    return statuses or msgspec.UNSET


def _image_status(ref: str) -> VolumeStatus | None:
    return VolumeStatus(image=ImageVolumeStatus(image_ref=ref)) if ref else None


def _absolute(path: str) -> str:
    return path if path.startswith("/") else f"/{path}"

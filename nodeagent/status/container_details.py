"""Container status fields that depend on the runtime: user and volume mounts. No I/O."""

from __future__ import annotations

import msgspec

from nodeagent.contracts.runtime import RuntimeContainerStatus
from nodeagent.model.pod import Container, ContainerUser, LinuxContainerUser, VolumeMountStatus

_ENABLED, _DISABLED = "Enabled", "Disabled"


def user_status(run: RuntimeContainerStatus) -> ContainerUser | msgspec.UnsetType:
    """Return the user of the container's process, if the runtime reports it."""
    if run.user is None:
        return msgspec.UNSET
    groups = list(run.user.supplemental_groups) or msgspec.UNSET
    return ContainerUser(linux=LinuxContainerUser(uid=run.user.uid, gid=run.user.gid, supplemental_groups=groups))


def volume_mount_statuses(
    container: Container, run: RuntimeContainerStatus | None
) -> list[VolumeMountStatus] | msgspec.UnsetType:
    """Return the status of the container's mounts.

    :param run: the latest run; without one, no mount is recursively read-only.
    """
    recursive = {mount.container_path for mount in run.mounts if mount.recursive_readonly} if run else ()
    statuses = [
        VolumeMountStatus(
            name=mount.name,
            mount_path=mount.mount_path,
            read_only=mount.read_only,
            recursive_read_only=(_ENABLED if _absolute(mount.mount_path) in recursive else _DISABLED)
            if mount.read_only
            else None,
        )
        for mount in container.volume_mounts or ()
    ]
    return statuses or msgspec.UNSET


def _absolute(path: str) -> str:
    return path if path.startswith("/") else f"/{path}"

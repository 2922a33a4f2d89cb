"""Detection of pods that exceed their local storage limits. No I/O."""

from __future__ import annotations

from collections.abc import Iterable

from nodeagent.base.quantity import Quantity
from nodeagent.base.structs import Struct
from nodeagent.contracts.stats import FilesystemStats, PodUsage
from nodeagent.model.pod import Pod
from nodeagent.model.pod_values import PodValues
from nodeagent.model.resources import EPHEMERAL_STORAGE, container_limits, pod_limits, quantity
from nodeagent_plugins.eviction.signals import Layout


class Excess(Struct, frozen=True):
    """Exceeded limit and eviction message."""

    signal: str
    message: str


class LimitedPods:
    """Counts the pods with limits that :func:`find_excess` checks; only pods that changed are evaluated."""

    def __init__(self) -> None:
        self._limits = PodValues(has_limit)
        self._count = 0

    def any(self, pods: Iterable[Pod]) -> bool:
        """Return whether one of *pods* has a limit."""
        added, removed = self._limits.update(pods)
        self._count += sum(added) - sum(removed)
        return self._count > 0


def has_limit(pod: Pod) -> bool:
    """Return whether *pod* has a limit that :func:`find_excess` checks."""
    return any(v.empty_dir is not None and v.empty_dir.size_limit is not None for v in pod.spec.volumes or ()) or any(
        EPHEMERAL_STORAGE in (container.resources.limits or ()) for _, container in pod.containers()
    )


def find_excess(pod: Pod, usage: PodUsage, layout: Layout) -> Excess | None:
    """Return the first limit that *pod* exceeds: of an emptyDir, the total of the pod, or of a container.

    spec: config.localStorageCapacityIsolation
    """
    try:
        return _of_volumes(pod, usage) or _of_pod(pod, usage) or _of_containers(pod, usage, layout)
    except ValueError:
        return None  # Validation rejects invalid quantities of new pods.


def _of_volumes(pod: Pod, usage: PodUsage) -> Excess | None:
    used = {volume.name: volume.filesystem.used_bytes for volume in usage.volumes}
    for volume in pod.spec.volumes or ():
        if volume.empty_dir is None or volume.empty_dir.size_limit is None:
            continue
        limit = quantity(volume.empty_dir.size_limit)
        if limit > Quantity() and (used.get(volume.name) or 0) > limit.value():
            message = f'Usage of EmptyDir volume "{volume.name}" exceeds the limit "{limit}". '
            return Excess("emptydirfs.limit", message)
    return None


def _of_pod(pod: Pod, usage: PodUsage) -> Excess | None:
    limit = pod_limits(pod).get(EPHEMERAL_STORAGE)
    if limit is None or _used(usage.ephemeral_storage) <= limit.value():
        return None
    message = f"Pod ephemeral local storage usage exceeds the total limit of containers {limit}. "
    return Excess("ephemeralpodfs.limit", message)


def _of_containers(pod: Pod, usage: PodUsage, layout: Layout) -> Excess | None:
    limits = {container.name: container_limits(container).get(EPHEMERAL_STORAGE) for _, container in pod.containers()}
    for container in usage.containers:
        limit = limits.get(container.name)
        if not limit:
            continue
        used = _used(container.logs) + (_used(container.rootfs) if layout is Layout.SINGLE else 0)
        if used > limit.value():
            message = f'Container {container.name} exceeded its local ephemeral storage limit "{limit}". '
            return Excess("ephemeralcontainerfs.limit", message)
    return None


def _used(system: FilesystemStats | None) -> int:
    return (system.used_bytes or 0) if system is not None else 0

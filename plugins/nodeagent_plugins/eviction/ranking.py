"""Ranking of pods for eviction. No I/O."""

from __future__ import annotations

from collections.abc import Sequence

from nodeagent.base.quantity import Quantity
from nodeagent.contracts.eviction import EvictionCandidate
from nodeagent.contracts.stats import ContainerUsage, FilesystemStats, PodUsage
from nodeagent.model.eviction_thresholds import Signal
from nodeagent.model.pod import Pod
from nodeagent.model.resources import EPHEMERAL_STORAGE, MEMORY, pod_requests
from nodeagent_plugins.eviction.signals import INODES, PIDS, Layout, resource_of, shown

_IMAGE_DISK = frozenset({Signal.IMAGEFS, Signal.IMAGEFS_INODES})
_LAYER_DISK = frozenset({Signal.CONTAINERFS, Signal.CONTAINERFS_INODES})


def rank(signal: Signal, candidates: Sequence[EvictionCandidate], layout: Layout) -> list[EvictionCandidate]:
    """Return *candidates* in eviction order for *signal*.

    Pods that exceed their requests, or whose usage is unknown, come first; then lower priority; then the amount over
    the request. Process IDs cannot be requested: the order is priority, then number of processes.
    """
    if resource_of(signal) == PIDS:
        return sorted(candidates, key=lambda each: (_priority(each.pod), each.usage is not None, -_processes(each)))

    def key(each: EvictionCandidate) -> tuple[bool, bool, int, int]:
        used, requested = use(signal, each, layout), request(signal, each.pod)
        return each.usage is not None, used <= requested, _priority(each.pod), requested - used

    return sorted(candidates, key=key)


def explain(signal: Signal, candidate: EvictionCandidate, layout: Layout) -> str:
    """Return the reason for the rank of *candidate*, as part of a sentence."""
    priority = f"priority {_priority(candidate.pod)}"
    resource = resource_of(signal)
    if candidate.usage is None:
        return f"usage unknown; {priority}"
    if resource == PIDS:
        return f"{priority}; {_processes(candidate)} processes"
    used = use(signal, candidate, layout)
    if resource == INODES:
        return f"uses {used} inodes; {priority}"
    requested = request(signal, candidate.pod)
    relation = "more than" if used > requested else "within"
    return f"uses {shown(signal, used)} of {resource}, {relation} its request of {shown(signal, requested)}; {priority}"


def request(signal: Signal, pod: Pod) -> int:
    """Return the request of *pod* for the resource of *signal* in bytes; 0 if it cannot be requested."""
    resource = resource_of(signal)
    if resource not in (MEMORY, EPHEMERAL_STORAGE):
        return 0
    try:
        return pod_requests(pod).get(resource, Quantity()).value()
    except ValueError:
        return 0


def use(signal: Signal, candidate: EvictionCandidate, layout: Layout) -> int:
    """Return the usage of memory, disk or inodes that counts for *signal*."""
    usage = candidate.usage
    if usage is None:
        return 0
    if resource_of(signal) == MEMORY:
        return (usage.memory.working_set_bytes or 0) if usage.memory is not None else 0
    inodes = resource_of(signal) == INODES
    total = 0
    logs_and_volumes, layers = _parts(signal, layout)
    for container in usage.containers:
        total += _disk(container.logs, inodes) * logs_and_volumes + _disk(container.rootfs, inodes) * layers
    if logs_and_volumes:
        total += sum(_disk(system, inodes) for system in _local_volumes(candidate.pod, usage))
    return total


def container_use(resource: str, container: ContainerUsage) -> int | None:
    """Return the usage of one container in bytes, or ``None`` if *resource* is not measured per container."""
    if resource == MEMORY:
        return container.memory.working_set_bytes if container.memory is not None else None
    if resource == EPHEMERAL_STORAGE and container.rootfs is not None and container.logs is not None:
        if container.rootfs.used_bytes is None or container.logs.used_bytes is None:
            return None
        return container.rootfs.used_bytes + container.logs.used_bytes
    return None


def _parts(signal: Signal, layout: Layout) -> tuple[bool, bool]:
    """Return whether the disk of *signal* contains logs and volumes, and whether it contains writable layers."""
    if layout is Layout.SINGLE:
        return True, True
    if layout is Layout.SPLIT:
        on_node = signal not in _IMAGE_DISK
        return on_node, on_node
    on_images = signal in _IMAGE_DISK or signal in _LAYER_DISK
    return not on_images, on_images


def _local_volumes(pod: Pod, usage: PodUsage) -> list[FilesystemStats]:
    host_paths = {volume.name for volume in pod.spec.volumes or () if volume.host_path is not None}
    return [volume.filesystem for volume in usage.volumes if volume.local_ephemeral or volume.name in host_paths]


def _disk(system: FilesystemStats | None, inodes: bool) -> int:
    if system is None:
        return 0
    return (system.inodes_used if inodes else system.used_bytes) or 0


def _priority(pod: Pod) -> int:
    return pod.spec.priority or 0


def _processes(candidate: EvictionCandidate) -> int:
    return (candidate.usage.process_count or 0) if candidate.usage is not None else 0

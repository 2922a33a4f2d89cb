"""Helpers that build measurements."""

from __future__ import annotations

from collections.abc import Mapping

from nodeagent.contracts.stats import (
    ContainerUsage,
    FilesystemStats,
    MemoryStats,
    NodeUsage,
    PodUsage,
    VolumeUsage,
)
from nodeagent.model.pod import Pod

MI = 1024 * 1024
GI = 1024 * MI


def disk(
    available: int, capacity: int = 100 * GI, inodes_free: int = 900, time: int = 1, inodes: int = 1000
) -> FilesystemStats:
    return FilesystemStats(
        time, available_bytes=available, capacity_bytes=capacity, inodes=inodes, inodes_free=inodes_free
    )


def node_usage(
    memory: int = 8 * GI,
    *,
    nodefs: FilesystemStats | None = None,
    imagefs: FilesystemStats | None = None,
    containerfs: FilesystemStats | None = None,
    pids: int = 100,
    pods_memory: int | None = None,
    time: int = 1,
) -> NodeUsage:
    """Return a node of 16 GiB with *memory* available, 1000 process IDs, and almost empty disks."""
    systems = []
    if pods_memory is not None:
        left = MemoryStats(time, available_bytes=pods_memory, working_set_bytes=14 * GI - pods_memory)
        systems.append(ContainerUsage("pods", 0, memory=left))
    return NodeUsage(
        start_time=0,
        memory=MemoryStats(
            time, available_bytes=memory, working_set_bytes=16 * GI - memory, usage_bytes=16 * GI - memory
        ),
        filesystem=nodefs or disk(90 * GI, time=time),
        image_filesystem=imagefs or disk(90 * GI, time=time),
        container_filesystem=containerfs,
        max_pids=1000,
        current_pids=pids,
        system_containers=systems,
    )


def pod_usage(
    pod: Pod,
    memory: int = 0,
    *,
    logs: int = 0,
    layer: int = 0,
    inodes: int = 0,
    processes: int = 1,
    volumes: Mapping[str, int] | None = None,
) -> PodUsage:
    """Return the usage of a pod by its first container; *volumes* are local ephemeral ones with their bytes."""
    name = pod.spec.containers[0].name
    volumes = volumes or {}
    total = logs + layer + sum(volumes.values())
    return PodUsage(
        uid=pod.uid,
        namespace=pod.namespace,
        name=pod.name,
        start_time=0,
        containers=[
            ContainerUsage(
                name,
                0,
                memory=MemoryStats(1, working_set_bytes=memory),
                logs=FilesystemStats(1, used_bytes=logs, inodes_used=inodes),
                rootfs=FilesystemStats(1, used_bytes=layer, inodes_used=0),
            )
        ],
        memory=MemoryStats(1, working_set_bytes=memory),
        volumes=[
            VolumeUsage(name, FilesystemStats(1, used_bytes=used, inodes_used=1), local_ephemeral=True)
            for name, used in volumes.items()
        ],
        ephemeral_storage=FilesystemStats(1, used_bytes=total),
        process_count=processes,
    )

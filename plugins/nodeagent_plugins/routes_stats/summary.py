"""Resource usage of the node in the format of the Summary API. No I/O."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from nodeagent.contracts.stats import (
    ContainerUsage,
    CpuStats,
    FilesystemStats,
    InterfaceStats,
    IoStats,
    MemoryStats,
    NodeUsage,
    PodUsage,
    Pressure,
    PressureShare,
    VolumeUsage,
)


def summary(node_name: str, node: NodeUsage, pods: Iterable[PodUsage]) -> dict[str, Any]:
    """Return all statistics; unknown values are omitted."""
    at = _time_of(node.cpu, node.memory)
    container_fs = node.container_filesystem or node.image_filesystem
    return {
        "node": _known(
            {
                "nodeName": node_name,
                "systemContainers": [_container(container) for container in node.system_containers] or None,
                "startTime": _time(node.start_time),
                "cpu": _cpu(node.cpu),
                "memory": _memory(node.memory),
                "io": _io(node.io),
                "network": _network(node.interfaces, at),
                "fs": _filesystem(node.filesystem),
                "runtime": _known(
                    {"imageFs": _filesystem(node.image_filesystem), "containerFs": _filesystem(container_fs)}
                )
                or None,
                "rlimit": _known({"time": _time(at), "maxpid": node.max_pids, "curproc": node.current_pids}),
                "swap": _swap(node.memory),
            }
        ),
        "pods": [_pod(pod) for pod in pods],
    }


def cpu_and_memory(node_name: str, node: NodeUsage, pods: Iterable[PodUsage]) -> dict[str, Any]:
    """Return the statistics of CPU and memory only."""
    return {
        "node": _known(
            {
                "nodeName": node_name,
                "systemContainers": [_brief(container) for container in node.system_containers] or None,
                "startTime": _time(node.start_time),
                "cpu": _cpu(node.cpu),
                "memory": _memory(node.memory),
                "swap": _swap(node.memory),
            }
        ),
        "pods": [
            _known(
                {
                    **_head(pod),
                    "containers": [_brief(container) for container in pod.containers],
                    "cpu": _cpu(pod.cpu),
                    "memory": _memory(pod.memory),
                    "swap": _swap(pod.memory),
                }
            )
            for pod in pods
        ],
    }


def _pod(pod: PodUsage) -> dict[str, Any]:
    processes = {"process_count": pod.process_count} if pod.process_count is not None else None
    return _known(
        {
            **_head(pod),
            "containers": [_container(container) for container in pod.containers],
            "cpu": _cpu(pod.cpu),
            "memory": _memory(pod.memory),
            "io": _io(pod.io),
            "network": _network(pod.interfaces, _time_of(pod.cpu, pod.memory)),
            "volume": [_volume(volume) for volume in pod.volumes] or None,
            "ephemeral-storage": _filesystem(pod.ephemeral_storage),
            "process_stats": processes,
            "swap": _swap(pod.memory),
        }
    )


def _head(pod: PodUsage) -> dict[str, Any]:
    reference = {"name": pod.name, "namespace": pod.namespace, "uid": pod.uid}
    return {"podRef": reference, "startTime": _time(pod.start_time)}


def _container(container: ContainerUsage) -> dict[str, Any]:
    filesystems = {"rootfs": _filesystem(container.rootfs), "logs": _filesystem(container.logs)}
    return _known({**_brief(container), "io": _io(container.io), **filesystems})


def _brief(container: ContainerUsage) -> dict[str, Any]:
    return _known(
        {
            "name": container.name,
            "startTime": _time(container.start_time),
            "cpu": _cpu(container.cpu),
            "memory": _memory(container.memory),
            "swap": _swap(container.memory),
        }
    )


def _cpu(stats: CpuStats | None) -> dict[str, Any] | None:
    if stats is None:
        return None
    return _known(
        {
            "time": _time(stats.time),
            "usageNanoCores": stats.usage_nanocores,
            "usageCoreNanoSeconds": stats.usage_core_nanoseconds,
            "psi": _pressure(stats.pressure),
        }
    )


def _memory(stats: MemoryStats | None) -> dict[str, Any] | None:
    if stats is None:
        return None
    return _known(
        {
            "time": _time(stats.time),
            "availableBytes": stats.available_bytes,
            "usageBytes": stats.usage_bytes,
            "workingSetBytes": stats.working_set_bytes,
            "rssBytes": stats.rss_bytes,
            "pageFaults": stats.page_faults,
            "majorPageFaults": stats.major_page_faults,
            "psi": _pressure(stats.pressure),
        }
    )


def _io(stats: IoStats | None) -> dict[str, Any] | None:
    return {"time": _time(stats.time), "psi": _pressure(stats.pressure)} if stats is not None else None


def _pressure(stats: Pressure | None) -> dict[str, Any] | None:
    return {"full": _share(stats.full), "some": _share(stats.some)} if stats is not None else None


def _share(share: PressureShare) -> dict[str, Any]:
    return {"total": share.total_nanoseconds, "avg10": share.avg10, "avg60": share.avg60, "avg300": share.avg300}


def _swap(stats: MemoryStats | None) -> dict[str, Any] | None:
    if stats is None or (stats.swap_usage_bytes is None and stats.swap_available_bytes is None):
        return None
    return _known(
        {
            "time": _time(stats.time),
            "swapAvailableBytes": stats.swap_available_bytes,
            "swapUsageBytes": stats.swap_usage_bytes,
        }
    )


def _network(interfaces: Sequence[InterfaceStats], at: int) -> dict[str, Any] | None:
    if not interfaces:
        return None
    shown = [_interface(interface) for interface in interfaces]
    return {"time": _time(at), **shown[0], "interfaces": shown}


def _interface(interface: InterfaceStats) -> dict[str, Any]:
    return {
        "name": interface.name,
        "rxBytes": interface.rx_bytes,
        "rxErrors": interface.rx_errors,
        "txBytes": interface.tx_bytes,
        "txErrors": interface.tx_errors,
    }


def _filesystem(stats: FilesystemStats | None) -> dict[str, Any] | None:
    if stats is None:
        return None
    return _known(
        {
            "time": _time(stats.time),
            "availableBytes": stats.available_bytes,
            "capacityBytes": stats.capacity_bytes,
            "usedBytes": stats.used_bytes,
            "inodesFree": stats.inodes_free,
            "inodes": stats.inodes,
            "inodesUsed": stats.inodes_used,
        }
    )


def _volume(volume: VolumeUsage) -> dict[str, Any]:
    claim = {"name": volume.claim[1], "namespace": volume.claim[0]} if volume.claim is not None else None
    health = {"abnormal": volume.abnormal} if volume.abnormal is not None else None
    fields = {"name": volume.name, "pvcRef": claim, "volumeHealthStats": health}
    return _known({**(_filesystem(volume.filesystem) or {}), **fields})


def _time_of(cpu: CpuStats | None, memory: MemoryStats | None) -> int:
    return cpu.time if cpu is not None else memory.time if memory is not None else 0


def _time(nanoseconds: int) -> str | None:
    if not nanoseconds:
        return None
    return datetime.fromtimestamp(nanoseconds // 1_000_000_000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _known(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return *fields* without ``None`` values; an unknown time is ``null``."""
    return {key: value for key, value in fields.items() if value is not None or key in ("time", "startTime")}

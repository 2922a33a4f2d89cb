"""Conversion of sandboxes, containers and images to CRI messages."""

from __future__ import annotations

import time
from collections.abc import Mapping

from nodeagent.base.criproto import api_pb2 as cri
from nodeagent_plugins.embedded_runtime.cgroups import Usage
from nodeagent_plugins.embedded_runtime.images.store import Image
from nodeagent_plugins.embedded_runtime.records import Container, Sandbox
from nodeagent_plugins.embedded_runtime.stop_signals import cri_signal
from nodeagent_plugins.embedded_runtime.users import is_valid_id


def sandbox(record: Sandbox) -> cri.PodSandbox:
    return cri.PodSandbox(
        id=record.id,
        metadata=record.config.metadata,
        state=cri.SANDBOX_READY if record.ready else cri.SANDBOX_NOTREADY,
        created_at=record.created_at,
        labels=record.config.labels,
        annotations=record.config.annotations,
        runtime_handler=record.runtime_handler,
    )


def sandbox_status(record: Sandbox) -> cri.PodSandboxStatus:
    ips = record.ips if record.ready else []
    network = cri.PodSandboxNetworkStatus(ip=ips[0] if ips else "")
    network.additional_ips.extend(cri.PodIP(ip=ip) for ip in ips[1:])
    return cri.PodSandboxStatus(
        id=record.id,
        metadata=record.config.metadata,
        state=cri.SANDBOX_READY if record.ready else cri.SANDBOX_NOTREADY,
        created_at=record.created_at,
        network=network,
        linux=cri.LinuxPodSandboxStatus(namespaces=cri.Namespace(options=record.options)),
        labels=record.config.labels,
        annotations=record.config.annotations,
        runtime_handler=record.runtime_handler,
    )


def container(record: Container) -> cri.Container:
    return cri.Container(
        id=record.id,
        pod_sandbox_id=record.sandbox_id,
        metadata=record.config.metadata,
        image=record.config.image,
        image_ref=record.image_ref,
        state=record.state,
        created_at=record.created_at,
        labels=record.config.labels,
        annotations=record.config.annotations,
        image_id=record.image_id,
    )


def container_status(record: Container) -> cri.ContainerStatus:
    status = cri.ContainerStatus(
        id=record.id,
        metadata=record.config.metadata,
        state=record.state,
        created_at=record.created_at,
        started_at=record.started_at,
        finished_at=record.finished_at,
        exit_code=record.exit_code,
        image=record.config.image,
        image_ref=record.image_ref,
        reason=record.reason,
        message=record.message,
        labels=record.config.labels,
        annotations=record.config.annotations,
        mounts=record.config.mounts,
        log_path=record.log_path,
        resources=cri.ContainerResources(linux=record.config.linux.resources),
        image_id=record.image_id,
        stop_signal=cri_signal(record.stop_signal),
    )
    if record.user:  # Absent in records of earlier releases.
        user = status.user.linux
        user.uid, user.gid = record.user["uid"], record.user["gid"]
        user.supplemental_groups.extend(record.user["groups"])
    return status


def container_stats(record: Container, usage: Usage, written: tuple[int, int], mountpoint: str) -> cri.ContainerStats:
    now = time.time_ns()
    layer = cri.FilesystemUsage(
        timestamp=now,
        fs_id=cri.FilesystemIdentifier(mountpoint=mountpoint),
        used_bytes=_number(written[0]),
        inodes_used=_number(written[1]),
    )
    stats = cri.ContainerStats(
        attributes=cri.ContainerAttributes(
            id=record.id,
            metadata=record.config.metadata,
            labels=record.config.labels,
            annotations=record.config.annotations,
        ),
        writable_layer=layer,
    )
    if record.running:
        stats.cpu.CopyFrom(cpu(usage, now))
        stats.memory.CopyFrom(memory(usage, now))
        stats.swap.CopyFrom(cri.SwapUsage(timestamp=now, swap_usage_bytes=_number(usage.swap_bytes)))
    return stats


def sandbox_stats(
    record: Sandbox,
    usage: Usage,
    containers: list[cri.ContainerStats],
    network: Mapping[str, tuple[int, int, int, int]],
) -> cri.PodSandboxStats:
    now = time.time_ns()
    interfaces = [
        cri.NetworkInterfaceUsage(
            name=name,
            rx_bytes=_number(counts[0]),
            rx_errors=_number(counts[1]),
            tx_bytes=_number(counts[2]),
            tx_errors=_number(counts[3]),
        )
        for name, counts in network.items()
    ]
    linux = cri.LinuxPodSandboxStats(
        cpu=cpu(usage, now),
        memory=memory(usage, now),
        process=cri.ProcessUsage(timestamp=now, process_count=_number(usage.processes)),
        containers=containers,
    )
    if interfaces:
        linux.network.CopyFrom(
            cri.NetworkUsage(timestamp=now, default_interface=interfaces[0], interfaces=interfaces[1:])
        )
    attributes = cri.PodSandboxAttributes(
        id=record.id,
        metadata=record.config.metadata,
        labels=record.config.labels,
        annotations=record.config.annotations,
    )
    return cri.PodSandboxStats(attributes=attributes, linux=linux)


def cpu(usage: Usage, now: int) -> cri.CpuUsage:
    return cri.CpuUsage(timestamp=now, usage_core_nano_seconds=_number(usage.cpu_nanoseconds))


def memory(usage: Usage, now: int) -> cri.MemoryUsage:
    return cri.MemoryUsage(
        timestamp=now,
        working_set_bytes=_number(usage.working_set_bytes),
        usage_bytes=_number(usage.memory_bytes),
        rss_bytes=_number(usage.rss_bytes),
        page_faults=_number(usage.page_faults),
        major_page_faults=_number(usage.major_page_faults),
    )


def image(found: Image) -> cri.Image:
    response = cri.Image(
        id=found.id,
        repo_tags=found.tags,
        repo_digests=found.digests,
        size=found.size_bytes,
        spec=cri.ImageSpec(image=found.id),
        pinned=found.pinned,
    )
    user = str(found.config.get("User") or "").partition(":")[0]
    if is_valid_id(user):
        response.uid.value = int(user)
    else:
        response.username = user
    return response


def _number(value: int) -> cri.UInt64Value:
    return cri.UInt64Value(value=value)

"""Conversion of CRI responses to the agent's types."""

from __future__ import annotations

from collections.abc import Iterable
from enum import IntEnum
from typing import Any, TypeVar

from nodeagent.base.criproto import api_pb2 as cri
from nodeagent.contracts.runtime import (
    LABEL_POD_UID,
    ContainerInfo,
    ContainerState,
    ContainerStats,
    ContainerUser,
    FilesystemUsage,
    IdMapping,
    Image,
    ImageMount,
    LinuxResources,
    Mount,
    MountPropagation,
    NamespaceMode,
    RuntimeCondition,
    RuntimeContainerStatus,
    RuntimeEvent,
    RuntimeEventType,
    RuntimeFeatures,
    RuntimeHandler,
    RuntimePod,
    RuntimeStatus,
    SandboxInfo,
    SandboxStats,
    SandboxStatus,
)
from nodeagent.contracts.stats import InterfaceStats

N = TypeVar("N", bound=IntEnum)

_EVENTS = {
    cri.CONTAINER_CREATED_EVENT: RuntimeEventType.CREATED,
    cri.CONTAINER_STARTED_EVENT: RuntimeEventType.STARTED,
    cri.CONTAINER_STOPPED_EVENT: RuntimeEventType.STOPPED,
    cri.CONTAINER_DELETED_EVENT: RuntimeEventType.DELETED,
}


def sandbox_info(sandbox: cri.PodSandbox) -> SandboxInfo:
    meta = sandbox.metadata
    return SandboxInfo(
        id=sandbox.id,
        name=meta.name,
        uid=meta.uid,
        namespace=meta.namespace,
        attempt=meta.attempt,
        ready=sandbox.state == cri.SANDBOX_READY,
        created_at=sandbox.created_at,
        labels=dict(sandbox.labels),
        annotations=dict(sandbox.annotations),
        runtime_handler=sandbox.runtime_handler,
    )


def sandbox_status(status: cri.PodSandboxStatus, *, ipv6_first: bool = False) -> SandboxStatus:
    meta, network = status.metadata, status.network
    return SandboxStatus(
        id=status.id,
        name=meta.name,
        uid=meta.uid,
        namespace=meta.namespace,
        attempt=meta.attempt,
        ready=status.state == cri.SANDBOX_READY,
        created_at=status.created_at,
        ips=_one_of_each_family([network.ip, *(more.ip for more in network.additional_ips)], ipv6_first=ipv6_first),
        network_mode=_known(NamespaceMode, status.linux.namespaces.options.network, NamespaceMode.POD),
        labels=dict(status.labels),
        annotations=dict(status.annotations),
        runtime_handler=status.runtime_handler,
    )


def _one_of_each_family(ips: Iterable[str], *, ipv6_first: bool) -> tuple[str, ...]:
    """Return the first IPv4 and the first IPv6 address; the node's primary family comes first."""
    families: dict[bool, str] = {}
    for ip in filter(None, ips):
        families.setdefault(":" in ip, ip)
    return tuple(families[family] for family in (ipv6_first, not ipv6_first) if family in families)


def container_info(container: cri.Container) -> ContainerInfo:
    return ContainerInfo(
        id=container.id,
        sandbox_id=container.pod_sandbox_id,
        name=container.metadata.name,
        attempt=container.metadata.attempt,
        image=container.image.image,
        image_ref=container.image_ref,
        state=_known(ContainerState, container.state, ContainerState.UNKNOWN),
        created_at=container.created_at,
        labels=dict(container.labels),
        annotations=dict(container.annotations),
        image_id=container.image_id,
    )


def container_status(status: cri.ContainerStatus) -> RuntimeContainerStatus:
    return RuntimeContainerStatus(
        id=status.id,
        name=status.metadata.name,
        attempt=status.metadata.attempt,
        state=_known(ContainerState, status.state, ContainerState.UNKNOWN),
        created_at=status.created_at,
        started_at=status.started_at,
        finished_at=status.finished_at,
        exit_code=status.exit_code,
        image=status.image.user_specified_image or status.image.image,
        image_ref=status.image_ref,
        reason=status.reason,
        message=status.message,
        log_path=status.log_path,
        labels=dict(status.labels),
        annotations=dict(status.annotations),
        mounts=tuple(map(mount, status.mounts)),
        image_id=status.image_id,
        user=container_user(status.user.linux) if status.user.HasField("linux") else None,
        stop_signal=_signal(status.stop_signal),
        resources=_resources(status.resources.linux) if status.resources.HasField("linux") else None,
    )


def mount(reported: cri.Mount) -> Mount:
    image = reported.image
    return Mount(
        container_path=reported.container_path,
        host_path=reported.host_path,
        readonly=reported.readonly,
        selinux_relabel=reported.selinux_relabel,
        propagation=_known(MountPropagation, reported.propagation, MountPropagation.PRIVATE),
        recursive_readonly=reported.recursive_read_only,
        image=ImageMount(image.image, image.user_specified_image, reported.image_sub_path) if image.image else None,
        uids=tuple(map(id_mapping, reported.uidMappings)),
        gids=tuple(map(id_mapping, reported.gidMappings)),
    )


def id_mapping(mapping: cri.IDMapping) -> IdMapping:
    return IdMapping(mapping.host_id, mapping.container_id, mapping.length)


def container_user(user: cri.LinuxContainerUser) -> ContainerUser:
    return ContainerUser(user.uid, user.gid, tuple(user.supplemental_groups))


def runtime_status(response: cri.StatusResponse, *, image_volumes: bool) -> RuntimeStatus:
    """Return the conditions and features in *response*.

    :param image_volumes: the runtime mounts images, which CRI does not report.
    """
    features = response.features
    return RuntimeStatus(
        conditions=tuple(RuntimeCondition(c.type, c.status, c.reason, c.message) for c in response.status.conditions),
        handlers=tuple(
            RuntimeHandler(
                handler.name,
                recursive_read_only_mounts=handler.features.recursive_read_only_mounts,
                user_namespaces=handler.features.user_namespaces,
            )
            for handler in response.runtime_handlers
        ),
        features=RuntimeFeatures(
            supplemental_groups_policy=features.supplemental_groups_policy,
            user_namespaces_host_network=features.user_namespaces_host_network,
        )
        if response.HasField("features")
        else None,
        image_volumes=image_volumes,
    )


def container_stats(stats: cri.ContainerStats) -> ContainerStats:
    attributes, memory, layer = stats.attributes, stats.memory, stats.writable_layer
    return ContainerStats(
        id=attributes.id,
        name=attributes.metadata.name,
        pod_uid=attributes.labels.get(LABEL_POD_UID, ""),
        timestamp=stats.cpu.timestamp,
        cpu_usage_core_nanoseconds=stats.cpu.usage_core_nano_seconds.value,
        memory_working_set_bytes=memory.working_set_bytes.value,
        memory_usage_bytes=memory.usage_bytes.value,
        memory_rss_bytes=memory.rss_bytes.value,
        writable_layer_bytes=layer.used_bytes.value,
        writable_layer_inodes=layer.inodes_used.value,
        writable_layer_mountpoint=layer.fs_id.mountpoint,
        memory_available_bytes=_value(memory, "available_bytes"),
        page_faults=memory.page_faults.value,
        major_page_faults=memory.major_page_faults.value,
        swap_usage_bytes=_value(stats.swap, "swap_usage_bytes"),
        swap_available_bytes=_value(stats.swap, "swap_available_bytes"),
        cpu_usage_nanocores=_value(stats.cpu, "usage_nano_cores"),
    )


def sandbox_stats(stats: cri.PodSandboxStats) -> SandboxStats:
    attributes, linux = stats.attributes, stats.linux
    cpu, memory, network = linux.cpu, linux.memory, linux.network
    found = [network.default_interface] if network.HasField("default_interface") else []
    found += [interface for interface in network.interfaces if interface.name != network.default_interface.name]
    return SandboxStats(
        id=attributes.id,
        pod_uid=attributes.metadata.uid,
        timestamp=cpu.timestamp,
        cpu_usage_core_nanoseconds=_value(cpu, "usage_core_nano_seconds"),
        cpu_usage_nanocores=_value(cpu, "usage_nano_cores"),
        memory_available_bytes=_value(memory, "available_bytes"),
        memory_working_set_bytes=_value(memory, "working_set_bytes"),
        memory_usage_bytes=_value(memory, "usage_bytes"),
        memory_rss_bytes=_value(memory, "rss_bytes"),
        page_faults=_value(memory, "page_faults"),
        major_page_faults=_value(memory, "major_page_faults"),
        process_count=_value(linux.process, "process_count"),
        interfaces=tuple(
            InterfaceStats(i.name, i.rx_bytes.value, i.rx_errors.value, i.tx_bytes.value, i.tx_errors.value)
            for i in found
        ),
        containers=tuple(map(container_stats, linux.containers)),
    )


def event(response: cri.ContainerEventResponse) -> RuntimeEvent | None:
    """Return *response* as an event, with the pod's status if the runtime sent one.

    ``None`` for a type of a later CRI version.
    """
    pod, kind = None, _EVENTS.get(response.container_event_type)
    if kind is None:
        return None
    if response.HasField("pod_sandbox_status"):
        sandbox = sandbox_status(response.pod_sandbox_status)
        containers = sorted(map(container_status, response.containers_statuses), key=lambda c: -c.created_at)
        pod = RuntimePod(sandbox.uid, sandbox.name, sandbox.namespace, (sandbox,), tuple(containers))
    uid = pod.uid if pod else ""
    return RuntimeEvent(kind, response.container_id, uid, pod, response.created_at)


def image(found: cri.Image) -> Image:
    return Image(
        id=found.id,
        repo_tags=tuple(found.repo_tags),
        repo_digests=tuple(found.repo_digests),
        size_bytes=found.size,
        uid=found.uid.value if found.HasField("uid") else None,
        username=found.username,
        pinned=found.pinned,
    )


def filesystem_usage(usage: cri.FilesystemUsage) -> FilesystemUsage:
    return FilesystemUsage(
        mountpoint=usage.fs_id.mountpoint,
        used_bytes=usage.used_bytes.value,
        inodes_used=usage.inodes_used.value,
        timestamp=usage.timestamp,
    )


def _resources(resources: cri.LinuxContainerResources) -> LinuxResources:
    return LinuxResources(
        cpu_period=resources.cpu_period,
        cpu_quota=resources.cpu_quota,
        cpu_shares=resources.cpu_shares,
        memory_limit_bytes=resources.memory_limit_in_bytes,
        oom_score_adj=resources.oom_score_adj,
        cpuset_cpus=resources.cpuset_cpus,
        cpuset_mems=resources.cpuset_mems,
        hugepage_limits={page.page_size: page.limit for page in resources.hugepage_limits},
        unified=dict(resources.unified),
        memory_swap_limit_bytes=resources.memory_swap_limit_in_bytes,
    )


def _value(message: Any, field: str) -> int | None:
    """Return an optional number, ``None`` if the runtime omitted it."""
    return getattr(message, field).value if message.HasField(field) else None


def _known(kind: type[N], number: int, default: N) -> N:
    """Return the value with a *number*, *default* for one of a later CRI version."""
    try:
        return kind(number)
    except ValueError:
        return default


def _signal(number: int) -> str:
    """Return the name of a stop signal in the API; empty for the runtime's default or an unknown one."""
    name = cri.Signal.Name(number) if number in cri.Signal.values() else ""
    return "" if number == cri.RUNTIME_DEFAULT else name.replace("MINUS", "-").replace("PLUS", "+")

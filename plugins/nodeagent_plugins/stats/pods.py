"""Resource usage of pods and containers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from nodeagent.base.structs import Struct
from nodeagent.contracts.configuration import DEFAULT_POD_LOGS_DIR
from nodeagent.contracts.context import ProberContext
from nodeagent.contracts.runtime import (
    ContainerInfo,
    ContainerState,
    ContainerStats,
    RuntimeContainerStatus,
    SandboxInfo,
    SandboxStats,
)
from nodeagent.contracts.stats import (
    ContainerUsage,
    CpuStats,
    FilesystemStats,
    InterfaceStats,
    IoStats,
    MemoryStats,
    PodUsage,
    Pressure,
    VolumeUsage,
)
from nodeagent.model.pod import Pod
from nodeagent_plugins.stats.cgroup_lookup import CgroupLocator
from nodeagent_plugins.stats.cgroups import CgroupReader, CgroupStats
from nodeagent_plugins.stats.disk import DiskUse, use_of_file, use_of_files
from nodeagent_plugins.stats.machine import Machine, filesystem, nanoseconds
from nodeagent_plugins.stats.pressure import PressureReader
from nodeagent_plugins.stats.rates import CpuRates

_LOG_ROOT = "/var/log"


class RunningPod(Struct, frozen=True):
    """The latest sandbox of a pod, and its running containers."""

    sandbox: SandboxInfo
    containers: Sequence[ContainerInfo]


def running_pods(sandboxes: Iterable[SandboxInfo], containers: Iterable[ContainerInfo]) -> list[RunningPod]:
    """Return the pods with a running container; of containers with the same name the latest counts."""
    by_id = {sandbox.id: sandbox for sandbox in sandboxes}
    running: dict[str, dict[str, ContainerInfo]] = {}
    for container in sorted(containers, key=lambda container: container.created_at):
        sandbox = by_id.get(container.sandbox_id)
        if sandbox is not None and container.state is ContainerState.RUNNING:
            running.setdefault(sandbox.uid, {})[container.name] = container
    return [
        RunningPod(max((by_id[c.sandbox_id] for c in found.values()), key=lambda s: s.created_at), [*found.values()])
        for found in running.values()
    ]


class Meter:
    """Measures pods; every method blocks for milliseconds."""

    def __init__(
        self,
        context: ProberContext,
        machine: Machine,
        cgroups: CgroupReader,
        locator: CgroupLocator,
        rates: CpuRates,
        pressures: PressureReader,
    ) -> None:
        self._context, self._machine, self._cgroups = context, machine, cgroups
        self._locator, self._rates, self._pressures = locator, rates, pressures
        root = context.plugin_settings.get("pod_sync", {}).get("log_root", _LOG_ROOT)
        configured = context.config.pod_logs_dir
        self._logs = str(Path(root) / "pods") if configured == DEFAULT_POD_LOGS_DIR else configured

    def measure(
        self,
        pods: Sequence[RunningPod],
        containers: Mapping[str, ContainerStats],
        sandboxes: Mapping[str, SandboxStats],
    ) -> Sequence[PodUsage]:
        """Return the usage of *pods*.

        :param containers: the runtime's statistics by container ID.
        :param sandboxes: the runtime's statistics of pods by sandbox ID; without any the cgroups are read.
        """
        now = nanoseconds(self._context.clock.wall())
        layers: dict[str, FilesystemStats | None] = {}
        for mountpoint in {stats.writable_layer_mountpoint for stats in containers.values()} - {""}:
            layers[mountpoint] = filesystem(mountpoint, now)
        shared = filesystem(self._context.root_dir, now) or FilesystemStats(now)
        found = [self._measure_pod(pod, containers, sandboxes.get(pod.sandbox.id), layers, shared) for pod in pods]
        uids, ids = {pod.sandbox.uid for pod in pods}, {c.id for pod in pods for c in pod.containers}
        self._locator.keep(uids, ids | {pod.sandbox.id for pod in pods})
        self._rates.keep(uids | ids)
        return found

    def memory(self, pods: Iterable[tuple[Pod, Sequence[RuntimeContainerStatus]]]) -> list[PodUsage] | None:
        """Return only the memory usage of *pods*; ``None`` if a running container has no cgroup."""
        found = []
        for pod, running in pods:
            cgroup = self._locator.pod(pod.uid)
            paths = [self._locator.container(pod.uid, container.id) for container in running]
            if not cgroup and not any(paths):
                return None
            now = nanoseconds(self._context.clock.wall())
            containers = [
                ContainerUsage(container.name, container.created_at, memory=memory_stats(account, now))
                for container, path in zip(running, paths, strict=True)
                if path and (account := self._cgroups.memory(path)) is not None
            ]
            whole = self._cgroups.memory(cgroup) if cgroup else None
            memory = memory_stats(whole, now) if whole is not None else _sum_memory(containers, now)
            if memory is not None:  # Otherwise the container has just exited.
                found.append(PodUsage(pod.uid, pod.namespace, pod.name, 0, containers, memory=memory))
        return found

    def _measure_pod(
        self,
        pod: RunningPod,
        stats: Mapping[str, ContainerStats],
        whole: SandboxStats | None,
        layers: Mapping[str, FilesystemStats | None],
        shared: FilesystemStats,
    ) -> PodUsage:
        sandbox, uid = pod.sandbox, pod.sandbox.uid
        logs = f"{self._logs}/{sandbox.namespace}_{sandbox.name}_{uid}"
        now = nanoseconds(self._context.clock.wall())
        containers, pids, count = [], [], 0
        for container in pod.containers:
            counted = stats.get(container.id)
            from_runtime = whole is not None
            cpu, memory, io, found = self._measure_container(uid, container, counted, now, from_runtime=from_runtime)
            rootfs = None
            if counted is not None:
                used = DiskUse(counted.writable_layer_bytes, counted.writable_layer_inodes)
                rootfs = _part(layers.get(counted.writable_layer_mountpoint), now, used)
            log = _part(shared, now, use_of_files(f"{logs}/{container.name}"))
            usage = ContainerUsage(container.name, container.created_at, cpu, memory, rootfs, log, container.id, io)
            containers.append(usage)
            pids += found[:1]
            count += len(found)
        cpu, memory, io, interfaces, processes = self._whole_pod(pod, containers, pids, count, whole, now)
        beside = use_of_files(logs) + use_of_file(str(self._context.pod_dir(uid) / "etc-hosts"))
        return PodUsage(
            uid,
            sandbox.namespace,
            sandbox.name,
            sandbox.created_at,
            containers,
            cpu=cpu,
            memory=memory,
            interfaces=interfaces,
            ephemeral_storage=_ephemeral(containers, beside, shared, now),
            process_count=processes,
            io=io,
        )

    def _measure_container(
        self, uid: str, container: ContainerInfo, counted: ContainerStats | None, now: int, *, from_runtime: bool
    ) -> tuple[CpuStats | None, MemoryStats | None, IoStats | None, list[int]]:
        """Return the usage of a container, with its processes, which only cgroups provide."""
        if not from_runtime:
            path = self._locator.container(uid, container.id)
            account = self._cgroups.account(path) if path else None
            if account is not None:
                rate = self._rates.update(container.id, now, account.cpu_nanoseconds)
                pressures = self._pressures.read(path)
                cpu, memory = cpu_stats(account, now, rate, pressures.cpu), memory_stats(account, now, pressures.memory)
                return cpu, memory, io_stats(pressures.io, now), self._cgroups.processes(path)
        if counted is None:
            return None, None, None, []
        rate = self._rates.update(container.id, counted.timestamp, counted.cpu_usage_core_nanoseconds)
        cpu = CpuStats(
            counted.timestamp,
            counted.cpu_usage_nanocores if counted.cpu_usage_nanocores is not None else rate,
            counted.cpu_usage_core_nanoseconds,
        )
        return cpu, _runtime_memory(counted), None, []

    def _whole_pod(
        self,
        pod: RunningPod,
        containers: Sequence[ContainerUsage],
        pids: Sequence[int],
        count: int,
        whole: SandboxStats | None,
        now: int,
    ) -> tuple[CpuStats | None, MemoryStats | None, IoStats | None, Sequence[InterfaceStats], int | None]:
        uid = pod.sandbox.uid
        if whole is not None:
            rate = self._rates.update(uid, whole.timestamp, whole.cpu_usage_core_nanoseconds)
            rate = whole.cpu_usage_nanocores if whole.cpu_usage_nanocores is not None else rate
            cpu = CpuStats(whole.timestamp, rate, whole.cpu_usage_core_nanoseconds)
            return cpu, _sandbox_memory(whole), None, whole.interfaces, whole.process_count
        path = self._locator.container(uid, pod.sandbox.id)
        inside = self._cgroups.processes(path) if path else []
        pid = next((pid for pid in (*inside, *pids) if pid), 0)
        interfaces = self._machine.interfaces(pid) if pid else ()
        processes = len(inside) + count if path or count else None
        cgroup = self._locator.pod(uid)
        account = self._cgroups.account(cgroup) if cgroup else None
        if account is None:
            return _sum_cpu(containers, now), _sum_memory(containers, now), None, interfaces, processes
        rate, pressures = self._rates.update(uid, now, account.cpu_nanoseconds), self._pressures.read(cgroup)
        cpu, memory = cpu_stats(account, now, rate, pressures.cpu), memory_stats(account, now, pressures.memory)
        return cpu, memory, io_stats(pressures.io, now), interfaces, processes


def with_volumes(pod: PodUsage, volumes: Sequence[VolumeUsage]) -> PodUsage:
    """Return *pod* with its volumes; those on the node's disk are added to its ephemeral storage."""
    local = [volume.filesystem for volume in volumes if volume.local_ephemeral]
    storage = pod.ephemeral_storage
    if local and storage is not None:
        storage = replace(
            storage,
            used_bytes=(storage.used_bytes or 0) + sum(volume.used_bytes or 0 for volume in local),
            inodes_used=(storage.inodes_used or 0) + sum(volume.inodes_used or 0 for volume in local),
        )
    return replace(pod, volumes=volumes, ephemeral_storage=storage)


def cpu_stats(account: CgroupStats, now: int, rate: int | None, pressure: Pressure | None = None) -> CpuStats:
    return CpuStats(now, rate, account.cpu_nanoseconds, pressure)


def io_stats(pressure: Pressure | None, now: int) -> IoStats | None:
    return IoStats(now, pressure) if pressure is not None else None


def memory_stats(account: CgroupStats, now: int, pressure: Pressure | None = None) -> MemoryStats:
    limit, working = account.memory_limit_bytes, account.working_set_bytes
    return MemoryStats(
        now,
        available_bytes=max(0, limit - working) if limit is not None and working is not None else None,
        usage_bytes=account.memory_bytes,
        working_set_bytes=working,
        rss_bytes=account.rss_bytes,
        page_faults=account.page_faults,
        major_page_faults=account.major_page_faults,
        swap_usage_bytes=account.swap_bytes,
        swap_available_bytes=_swap_available(account),
        pressure=pressure,
    )


def _swap_available(account: CgroupStats) -> int | None:
    if account.swap_limit_bytes is None or account.swap_bytes is None:
        return None
    return max(0, account.swap_limit_bytes - account.swap_bytes)


def _runtime_memory(counted: ContainerStats) -> MemoryStats:
    return MemoryStats(
        counted.timestamp,
        available_bytes=counted.memory_available_bytes,
        usage_bytes=counted.memory_usage_bytes,
        working_set_bytes=counted.memory_working_set_bytes,
        rss_bytes=counted.memory_rss_bytes,
        page_faults=counted.page_faults,
        major_page_faults=counted.major_page_faults,
        swap_usage_bytes=counted.swap_usage_bytes,
        swap_available_bytes=counted.swap_available_bytes,
    )


def _sandbox_memory(whole: SandboxStats) -> MemoryStats:
    return MemoryStats(
        whole.timestamp,
        available_bytes=whole.memory_available_bytes,
        usage_bytes=whole.memory_usage_bytes,
        working_set_bytes=whole.memory_working_set_bytes,
        rss_bytes=whole.memory_rss_bytes,
        page_faults=whole.page_faults,
        major_page_faults=whole.major_page_faults,
    )


def _part(whole: FilesystemStats | None, now: int, use: DiskUse) -> FilesystemStats:
    """Return the file system *whole* with the usage of one part."""
    if whole is None:
        return FilesystemStats(now, used_bytes=use.bytes, inodes_used=use.inodes)
    return FilesystemStats(
        now, whole.available_bytes, whole.capacity_bytes, use.bytes, whole.inodes_free, whole.inodes, use.inodes
    )


def _ephemeral(
    containers: Sequence[ContainerUsage], beside: DiskUse, shared: FilesystemStats, now: int
) -> FilesystemStats:
    """Return the total of logs, writable layers and the pod's files."""
    size, inodes = beside.bytes, beside.inodes
    for container in containers:
        for part in (container.rootfs, container.logs):
            if part is not None:
                size += part.used_bytes or 0
                inodes += part.inodes_used or 0
    return _part(shared, now, DiskUse(size, inodes))


def _sum_cpu(containers: Sequence[ContainerUsage], now: int) -> CpuStats | None:
    found = [container.cpu for container in containers if container.cpu is not None]
    if not found:
        return None
    return CpuStats(
        now, _sum(part.usage_nanocores for part in found), _sum(part.usage_core_nanoseconds for part in found)
    )


def _sum_memory(containers: Sequence[ContainerUsage], now: int) -> MemoryStats | None:
    found = [container.memory for container in containers if container.memory is not None]
    if not found:
        return None
    return MemoryStats(
        now,
        usage_bytes=_sum(part.usage_bytes for part in found),
        working_set_bytes=_sum(part.working_set_bytes for part in found),
        rss_bytes=_sum(part.rss_bytes for part in found),
        page_faults=_sum(part.page_faults for part in found),
        major_page_faults=_sum(part.major_page_faults for part in found),
        swap_usage_bytes=_sum(part.swap_usage_bytes for part in found),
    )


def _sum(values: Iterable[int | None]) -> int | None:
    """Return the total of the known values, ``None`` if all are unknown."""
    known = [value for value in values if value is not None]
    return sum(known) if known else None

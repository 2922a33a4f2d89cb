"""Statistics provider: measures on demand and caches the results briefly."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from nodeagent.base.metrics import Gauge
from nodeagent.contracts.context import ProberContext
from nodeagent.contracts.runtime import (
    ContainerState,
    ContainerStats,
    FilesystemUsage,
    RuntimeContainerStatus,
    SandboxStats,
)
from nodeagent.contracts.stats import FilesystemStats, NodeUsage, PodUsage
from nodeagent.errors import RuntimeFailure
from nodeagent.model.pod import Pod
from nodeagent_plugins.stats import pods as pod_usage
from nodeagent_plugins.stats.cgroup_lookup import CgroupLocator
from nodeagent_plugins.stats.cgroups import CgroupReader
from nodeagent_plugins.stats.machine import Machine, filesystem, nanoseconds
from nodeagent_plugins.stats.pods import Meter, RunningPod
from nodeagent_plugins.stats.pressure import PressureReader
from nodeagent_plugins.stats.rates import CpuRates
from nodeagent_plugins.stats.system import SystemContainers
from nodeagent_plugins.stats.volumes import VolumeMeter

_log = logging.getLogger(__name__)

MAX_AGE_SECONDS = 5.0
IMAGE_SECONDS = 3.0
"""Timeout for the runtime's image store statistics; a node under memory pressure cannot wait longer."""
LAYER_SECONDS = 9.0
"""Cache duration of the runtime's statistics of writable layers, which it updates every ten seconds."""

_PROVIDER = Gauge(
    "metrics_provider",
    "Metrics provider used by kubelet to collect container stats. Values can be 'cadvisor' and 'cri'",
    ("provider",),
)


class MeasuredStats:
    """:class:`~nodeagent.contracts.stats.StatsProvider` based on cgroups and the runtime.

    CPU and memory are read from cgroups; writable layers, and containers without a cgroup, from the runtime. With the
    gate ``PodAndContainerStatsFromCRI`` the runtime's statistics of pods and containers are used if supported.

    :param max_age_seconds: maximum age of a cached result.
    """

    def __init__(
        self, context: ProberContext, *, max_age_seconds: float = MAX_AGE_SECONDS, machine: Machine | None = None
    ) -> None:
        self._context, self._max_age = context, max_age_seconds
        self.machine = machine or Machine()
        self.cgroups = CgroupReader.find(self.machine)
        self.volumes = VolumeMeter(context)
        self.locator = CgroupLocator(context, self.cgroups)
        self._rates, self._node_rates = CpuRates(), CpuRates()
        enabled = context.gates.enabled("NodeAgentPSI")
        self.pressures = PressureReader(self.cgroups, self.machine, enabled=enabled)
        self._meter = Meter(context, self.machine, self.cgroups, self.locator, self._rates, self.pressures)
        self._system = SystemContainers(
            context, self.machine, self.cgroups, self.locator, self._node_rates, self.pressures
        )
        self._from_runtime = context.gates.enabled("PodAndContainerStatsFromCRI")
        _PROVIDER.set(1, "cri" if self._from_runtime else "cadvisor")
        self._runtime_counts_pods = True
        self._counted: Mapping[str, ContainerStats] = {}
        self._counted_until = 0.0
        self._images: Sequence[FilesystemUsage] = ()
        self._images_failing = False
        self._node_lock, self._pods_lock = asyncio.Lock(), asyncio.Lock()
        self._node: NodeUsage | None = None
        self._node_at = 0.0
        self._pods: Sequence[PodUsage] = ()
        self._pods_at: float | None = None

    async def node(self, *, fresh: bool = False) -> NodeUsage:
        async with self._node_lock:
            now = self._context.clock.now()
            if self._node is None or fresh or now - self._node_at >= self._max_age:
                images = await self._image_filesystems()
                self._node = await asyncio.to_thread(self._measure_node, images)
                self._node_at = now
            return self._node

    async def pods(self, *, fresh: bool = False, volumes: bool = True) -> Sequence[PodUsage]:
        async with self._pods_lock:
            now = self._context.clock.now()
            if self._pods_at is None or fresh or now - self._pods_at >= self._max_age:
                self._pods = await self._measure_pods()
                self._pods_at = now
            found = self._pods
        if not volumes:
            return found
        return [
            pod_usage.with_volumes(pod, latest) if (latest := self.volumes.latest(pod.uid)) else pod for pod in found
        ]

    async def memory(self) -> Sequence[PodUsage]:
        """Read the memory cgroups of the running containers; calls the runtime only if a container has no cgroup.

        :raises RuntimeFailure: the runtime did not respond.
        """
        if not (self._from_runtime and self._runtime_counts_pods):
            found = await asyncio.to_thread(self._meter.memory, list(self._seen_running()))
            if found is not None:
                return found
        return await self.pods(fresh=True, volumes=False)

    def _seen_running(self) -> Iterator[tuple[Pod, list[RuntimeContainerStatus]]]:
        """Yield the pods that were last observed with running containers, and these."""
        for pod in self._context.pods.active():
            observed = self._context.pods.observed(pod.uid)
            running = [c for c in observed.containers if c.state is ContainerState.RUNNING] if observed else []
            if running:
                yield pod, running

    async def measure_volumes(self) -> None:
        await self.volumes.measure_now()

    async def running_pods(self) -> Sequence[RunningPod]:
        """Return the pods with running containers in the runtime.

        :raises RuntimeFailure: the runtime did not respond.
        """
        runtime = self._context.runtime
        return pod_usage.running_pods(await runtime.list_sandboxes(), await runtime.list_containers())

    async def _measure_pods(self) -> Sequence[PodUsage]:
        pods = await self.running_pods()
        counted: Mapping[str, SandboxStats] = {}
        if self._from_runtime and self._runtime_counts_pods:
            try:
                counted = {stats.id: stats for stats in await self._context.runtime.sandbox_stats()}
            except NotImplementedError:
                self._runtime_counts_pods = False
                _log.warning("Falling back to cgroups for pod stats missing in CRI")
        if counted:
            containers: Mapping[str, ContainerStats] = {c.id: c for s in counted.values() for c in s.containers}
        else:
            containers = await self._container_stats(pods)
        return await asyncio.to_thread(self._meter.measure, pods, containers, counted)

    async def _container_stats(self, pods: Sequence[RunningPod]) -> Mapping[str, ContainerStats]:
        """Return the runtime's statistics of containers, which take longer than all others.

        They are cached for some seconds unless there is a new container, or one without a cgroup.
        """
        now = self._context.clock.now()
        known = all(
            container.id in self._counted and self.locator.container(pod.sandbox.uid, container.id)
            for pod in pods
            for container in pod.containers
        )
        if now >= self._counted_until or not known:
            self._counted = {stats.id: stats for stats in await self._context.runtime.container_stats()}
            self._counted_until = now + LAYER_SECONDS
        return self._counted

    async def _image_filesystems(self) -> Sequence[FilesystemUsage]:
        """Return the runtime's image store statistics, or the previous ones after a failure."""
        try:
            async with asyncio.timeout(IMAGE_SECONDS):
                self._images = await self._context.images.filesystem_usage()
        except (RuntimeFailure, TimeoutError) as error:
            if not self._images_failing:
                _log.warning("Failed to get image filesystem stats", extra={"err": str(error) or "timed out"})
            self._images_failing = True
        else:
            self._images_failing = False
        return self._images

    def _measure_node(self, images: Sequence[FilesystemUsage]) -> NodeUsage:
        machine, now = self.machine, nanoseconds(self._context.clock.wall())
        account, pressures = self.cgroups.root(), self.pressures.read("/")
        rate = self._node_rates.update("/", now, account.cpu_nanoseconds)
        image = _image_filesystem(images[0], now) if images else None
        return NodeUsage(
            machine.boot_time(),
            cpu=pod_usage.cpu_stats(account, now, rate, pressures.cpu),
            memory=replace(
                pod_usage.memory_stats(account, now, pressures.memory),
                swap_available_bytes=machine.swap()[1],
                swap_usage_bytes=account.swap_bytes,
            ),
            filesystem=filesystem(self._context.root_dir, now),
            image_filesystem=image,
            interfaces=machine.interfaces(),
            max_pids=machine.max_pids(),
            current_pids=machine.current_pids(),
            system_containers=self._system.measure(now),
            io=pod_usage.io_stats(pressures.io, now),
        )


def _image_filesystem(usage: FilesystemUsage, now: int) -> FilesystemStats:
    """Return the image file system, with the size from the kernel and the usage from the runtime."""
    whole = filesystem(usage.mountpoint, now) if usage.mountpoint else None
    return replace(
        whole or FilesystemStats(now),
        time=usage.timestamp or now,
        used_bytes=usage.used_bytes,
        inodes_used=usage.inodes_used,
    )

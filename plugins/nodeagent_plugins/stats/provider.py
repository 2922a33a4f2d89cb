"""Measures on demand, and answers with what it measured a moment ago."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from nodeagent.contracts.context import AgentContext
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
from nodeagent_plugins.stats.rates import CpuRates
from nodeagent_plugins.stats.system import SystemContainers
from nodeagent_plugins.stats.volumes import VolumeMeter

_log = logging.getLogger(__name__)

MAX_AGE_SECONDS = 5.0
IMAGE_SECONDS = 3.0
"""How long the runtime may take to tell of its image store; a node short of memory cannot wait for it."""
LAYER_SECONDS = 9.0
"""How long what the runtime counts is good for: writable layers, which it measures every ten seconds itself."""


class MeasuredStats:
    """A :class:`~nodeagent.contracts.stats.StatsProvider` on the kernel's accounts and the runtime's.

    CPU and memory come from cgroups, writable layers from the runtime; what has no cgroup of its own is taken from the
    runtime too. With the gate ``PodAndContainerStatsFromCRI`` pods and containers are what the runtime says, as long
    as it can.

    :param max_age_seconds: how old an answer may be that need not be fresh.
    """

    def __init__(
        self, context: AgentContext, *, max_age_seconds: float = MAX_AGE_SECONDS, machine: Machine | None = None
    ) -> None:
        self._context, self._max_age = context, max_age_seconds
        self.machine = machine or Machine()
        self.cgroups = CgroupReader.find(self.machine)
        self.volumes = VolumeMeter(context)
        self.places = CgroupLocator(context, self.cgroups)
        self._rates, self._node_rates = CpuRates(), CpuRates()
        self._meter = Meter(context, self.machine, self.cgroups, self.places, self._rates)
        self._system = SystemContainers(context, self.machine, self.cgroups, self.places, self._node_rates)
        self._from_runtime = context.gates.enabled("PodAndContainerStatsFromCRI")
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
        """Read the cgroups of what was last seen running; the runtime is asked where something has none.

        :raises RuntimeFailure: the runtime did not answer.
        """
        if not (self._from_runtime and self._runtime_counts_pods):
            found = await asyncio.to_thread(self._meter.memory, list(self._seen_running()))
            if found is not None:
                return found
        return await self.pods(fresh=True, volumes=False)

    def _seen_running(self) -> Iterator[tuple[Pod, list[RuntimeContainerStatus]]]:
        """Yield the pods that were last seen with running containers, and these."""
        for pod in self._context.pods.active():
            observed = self._context.pods.observed(pod.uid)
            running = [c for c in observed.containers if c.state is ContainerState.RUNNING] if observed else []
            if running:
                yield pod, running

    async def measure_volumes(self) -> None:
        await self.volumes.measure_now()

    async def running_pods(self) -> Sequence[RunningPod]:
        """Return the pods that run something, as the runtime lists them.

        :raises RuntimeFailure: the runtime did not answer.
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
                _log.warning("The runtime does not count the use of pods; the kernel's accounts are used instead")
        if counted:
            containers: Mapping[str, ContainerStats] = {c.id: c for s in counted.values() for c in s.containers}
        else:
            containers = await self._ask_for_containers(pods)
        return await asyncio.to_thread(self._meter.measure, pods, containers, counted)

    async def _ask_for_containers(self, pods: Sequence[RunningPod]) -> Mapping[str, ContainerStats]:
        """Return what the runtime counts of containers; it takes longer to say so than all else here together.

        It is asked again after some seconds, for a container that is new, and for one without a cgroup of its own.
        """
        now = self._context.clock.now()
        known = all(
            container.id in self._counted and self.places.container(pod.sandbox.uid, container.id)
            for pod in pods
            for container in pod.containers
        )
        if now >= self._counted_until or not known:
            self._counted = {stats.id: stats for stats in await self._context.runtime.container_stats()}
            self._counted_until = now + LAYER_SECONDS
        return self._counted

    async def _image_filesystems(self) -> Sequence[FilesystemUsage]:
        """Return what the runtime says of its image store, or said last: the node is measured without it too."""
        try:
            async with asyncio.timeout(IMAGE_SECONDS):
                self._images = await self._context.images.filesystem_usage()
        except (RuntimeFailure, TimeoutError) as error:
            if not self._images_failing:
                _log.warning("Use of the image file system is not known", extra={"err": str(error) or "no answer"})
            self._images_failing = True
        else:
            self._images_failing = False
        return self._images

    def _measure_node(self, images: Sequence[FilesystemUsage]) -> NodeUsage:
        machine, now = self.machine, nanoseconds(self._context.clock.wall())
        account = self.cgroups.root()
        image = _image_filesystem(images[0], now) if images else None
        return NodeUsage(
            machine.boot_time(),
            cpu=pod_usage.cpu_stats(account, now, self._node_rates.update("/", now, account.cpu_nanoseconds)),
            memory=replace(
                pod_usage.memory_stats(account, now),
                swap_available_bytes=machine.swap()[1],
                swap_usage_bytes=account.swap_bytes,
            ),
            filesystem=filesystem(self._context.root_dir, now),
            image_filesystem=image,
            interfaces=machine.interfaces(),
            max_pids=machine.max_pids(),
            current_pids=machine.current_pids(),
            system_containers=self._system.measure(now),
        )


def _image_filesystem(usage: FilesystemUsage, now: int) -> FilesystemStats:
    """Return the image file system: its size as the kernel has it, its use as the runtime counts its own."""
    whole = filesystem(usage.mountpoint, now) if usage.mountpoint else None
    return replace(
        whole or FilesystemStats(now),
        time=usage.timestamp or now,
        used_bytes=usage.used_bytes,
        inodes_used=usage.inodes_used,
    )

"""Simulated memory of a node, which pods and other processes use up."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import replace

from nodeagent import hookimpl
from nodeagent.base.simulation.clock import SimulatedClock
from nodeagent.contracts.stats import ContainerUsage, FilesystemStats, MemoryStats, NodeUsage, PodUsage
from nodeagent.model.pod import Pod
from nodeagent.simulation.disks import EVICTION_THRESHOLDS, HIGH_PERCENT, IMAGEFS, LOW_PERCENT, NODEFS, SimulatedDisks
from nodeagent.simulation.kernel_files import KernelFiles
from nodeagent.simulation.runtime import SimulatedRuntime
from nodeagent.simulation.runtime_objects import Container
from nodeagent.testing import FakeStats

MIB = 1 << 20
MEMORY_BYTES = 32 << 30
HARD_BYTES, SOFT_BYTES = 500 * MIB, 1000 * MIB
SOFT_SECONDS = 20
SOFT_GRACE_SECONDS = 5
"""Longest grace period of pods that are evicted because of the soft threshold."""
EVICTION_SETTINGS = {
    "eviction_hard": {"memory.available": "500Mi", "pid.available": "10%", **EVICTION_THRESHOLDS},
    "eviction_soft": {"memory.available": "1000Mi"},
    "eviction_soft_grace_period": {"memory.available": f"{SOFT_SECONDS}s"},
    "eviction_max_pod_grace_period": SOFT_GRACE_SECONDS,
    "enforce_node_allocatable": [],
    "image_gc_high_threshold_percent": HIGH_PERCENT,
    "image_gc_low_threshold_percent": LOW_PERCENT,
}
"""Fields of the configuration."""
_SYSTEM_BYTES = 2 << 30
_INACTIVE_BYTES = 256 * MIB
_CONTAINER_MIB = (10, 50, 80, 100, 120)


class SimulatedMemory:
    """Memory of the node. The usage of a container depends only on its pod, its name and the seed."""

    def __init__(self, seed: object, runtime: SimulatedRuntime) -> None:
        self._seed, self._runtime = seed, runtime
        self._system = _SYSTEM_BYTES
        self._usage: dict[tuple[str, str], int] = {}

    @property
    def available(self) -> int:
        """Bytes that are available."""
        used = sum(self.usage(container) for container in self._runtime.running())
        return max(0, MEMORY_BYTES - self._system - used)

    def usage(self, container: Container) -> int:
        """Return the usage of a running container in bytes."""
        key = container.sandbox.uid, container.name
        if key not in self._usage:
            chance = random.Random(f"{self._seed}/memory/{key[0]}/{key[1]}")
            self._usage[key] = chance.choice(_CONTAINER_MIB) * MIB
        return self._usage[key]

    def leave(self, available: int) -> None:
        """Use memory in other processes until only *available* bytes remain."""
        self._system += self.available - available

    def recover(self) -> None:
        """End the processes that used the memory."""
        self._system = _SYSTEM_BYTES

    def forget(self) -> None:
        """Drop the usage of containers, which can be determined again."""
        self._usage.clear()

    def files(self) -> KernelFiles:
        """Return the files in which the kernel reports the memory of a node with cgroup version 2."""
        return KernelFiles({"/proc/meminfo": self._meminfo, "/proc/self/mountinfo": str})

    def _meminfo(self) -> str:
        available = self.available
        inactive = min(available, _INACTIVE_BYTES)
        amounts = {"MemTotal": MEMORY_BYTES, "MemFree": available - inactive, "Inactive(file)": inactive}
        return "".join(f"{name}: {amount // 1024:>12} kB\n" for name, amount in amounts.items())


class SimulatedStats(FakeStats):
    """Usage of the node and its pods.

    :ivar sample: the usage of pods that was measured last, by UID.
    """

    def __init__(
        self, memory: SimulatedMemory, disks: SimulatedDisks, runtime: SimulatedRuntime, clock: SimulatedClock
    ) -> None:
        super().__init__()
        self._memory, self._disks, self._runtime, self._clock = memory, disks, runtime, clock
        self.sample: dict[str, PodUsage] = {}

    async def node(self, *, fresh: bool = False) -> NodeUsage:
        usage = await super().node(fresh=fresh)
        available = self._memory.available
        memory = MemoryStats(self._now(), available_bytes=available, working_set_bytes=MEMORY_BYTES - available)
        files, images = (self._disks.filesystem(signal, self._now()) for signal in (NODEFS, IMAGEFS))
        return replace(usage, memory=memory, filesystem=files, image_filesystem=images)

    async def pods(self, *, fresh: bool = False, volumes: bool = True) -> Sequence[PodUsage]:
        self._measure()
        return await super().pods(fresh=fresh, volumes=volumes)

    async def memory(self) -> Sequence[PodUsage]:
        self._measure()
        return await super().memory()

    def _measure(self) -> None:
        pods: dict[str, list[ContainerUsage]] = {}
        names = {}
        for sandbox in self._runtime.sandboxes.values():
            if sandbox.ready:
                pods[sandbox.uid] = []
                names[sandbox.uid] = sandbox.config.metadata
        now = self._now()
        for container in self._runtime.running():
            memory = MemoryStats(now, working_set_bytes=self._memory.usage(container))
            layer = FilesystemStats(now, used_bytes=self._disks.layer(container))
            logs = FilesystemStats(now, used_bytes=self._disks.logs(container))
            usage = ContainerUsage(container.name, container.started_at, memory=memory, rootfs=layer, logs=logs)
            pods[container.sandbox.uid].append(usage)
        self.sample = {}
        for uid, containers in pods.items():
            total = sum(each.memory.working_set_bytes or 0 for each in containers if each.memory is not None)
            memory = MemoryStats(now, working_set_bytes=total)
            name = names[uid]
            self.sample[uid] = PodUsage(uid, name.namespace, name.name, 0, containers, memory=memory)
        self.pod_usage = self.sample

    def _now(self) -> int:
        return int(self._clock.wall().timestamp() * 1e9)


class EvictionObserver:
    """Plugin that observes which pods the agent is about to evict.

    :ivar evicting: called with the UID of the pod and the signal.
    """

    def __init__(self) -> None:
        self.evicting: Callable[[str, str], None] = lambda _uid, _signal: None

    @hookimpl
    async def nodeagent_permit_eviction(self, pod: Pod, signal: str) -> None:
        self.evicting(pod.uid, signal)

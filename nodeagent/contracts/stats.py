"""Usage of the node, its pods and their containers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from nodeagent.base.structs import Struct


class PressureShare(Struct, frozen=True):
    """Time in which tasks waited for a resource: averages in percent of 10, 60 and 300 seconds, and the total."""

    total_nanoseconds: int = 0
    avg10: float = 0.0
    avg60: float = 0.0
    avg300: float = 0.0


class Pressure(Struct, frozen=True):
    """Pressure stall information (PSI) of one resource."""

    some: PressureShare
    """Time in which at least one task waited."""
    full: PressureShare
    """Time in which all tasks that were not idle waited."""


class CpuStats(Struct, frozen=True):
    """CPU usage; ``time`` in epoch nanoseconds, unknown values are ``None``."""

    time: int
    usage_nanocores: int | None = None
    usage_core_nanoseconds: int | None = None
    pressure: Pressure | None = None
    """``None`` without the feature gate ``NodeAgentPSI``, or if the kernel or cgroup v1 does not measure it."""


class IoStats(Struct, frozen=True):
    """Disk I/O; ``time`` in epoch nanoseconds."""

    time: int
    pressure: Pressure


class MemoryStats(Struct, frozen=True):
    """Memory usage in bytes, and page fault counters; ``available_bytes`` is ``None`` without a limit."""

    time: int
    available_bytes: int | None = None
    usage_bytes: int | None = None
    working_set_bytes: int | None = None
    rss_bytes: int | None = None
    page_faults: int | None = None
    major_page_faults: int | None = None
    swap_usage_bytes: int | None = None
    swap_available_bytes: int | None = None
    pressure: Pressure | None = None
    """As in :class:`CpuStats`."""


class FilesystemStats(Struct, frozen=True):
    """Capacity and usage of a file system; ``used_*`` may be the share of one consumer, such as a volume."""

    time: int
    available_bytes: int | None = None
    capacity_bytes: int | None = None
    used_bytes: int | None = None
    inodes_free: int | None = None
    inodes: int | None = None
    inodes_used: int | None = None


class InterfaceStats(Struct, frozen=True):
    """Counters of a network interface since its creation."""

    name: str
    rx_bytes: int = 0
    rx_errors: int = 0
    tx_bytes: int = 0
    tx_errors: int = 0


class ContainerUsage(Struct, frozen=True):
    """A running container, or a system container such as ``pods``, ``kubelet`` and ``runtime``."""

    name: str
    start_time: int
    """Epoch nanoseconds."""
    cpu: CpuStats | None = None
    memory: MemoryStats | None = None
    rootfs: FilesystemStats | None = None
    logs: FilesystemStats | None = None
    container_id: str = ""
    io: IoStats | None = None


class VolumeUsage(Struct, frozen=True):
    """Usage of a volume of a pod."""

    name: str
    filesystem: FilesystemStats
    claim: tuple[str, str] | None = None
    """Namespace and name of the PersistentVolumeClaim."""
    local_ephemeral: bool = False
    """True if its usage counts as the pod's ephemeral storage."""
    abnormal: bool | None = None
    """The driver's view of the volume's health; ``None`` if unknown."""


class PodUsage(Struct, frozen=True):
    """Usage of a pod; ``start_time`` in epoch nanoseconds."""

    uid: str
    namespace: str
    name: str
    start_time: int
    containers: Sequence[ContainerUsage] = ()
    cpu: CpuStats | None = None
    memory: MemoryStats | None = None
    interfaces: Sequence[InterfaceStats] = ()
    """The default interface first."""
    volumes: Sequence[VolumeUsage] = ()
    ephemeral_storage: FilesystemStats | None = None
    """Logs, writable layers and local ephemeral volumes together."""
    process_count: int | None = None
    io: IoStats | None = None


class NodeUsage(Struct, frozen=True):
    """Usage of the node; ``start_time`` in epoch nanoseconds."""

    start_time: int
    cpu: CpuStats | None = None
    memory: MemoryStats | None = None
    filesystem: FilesystemStats | None = None
    """File system of the agent's root directory (``nodefs``)."""
    image_filesystem: FilesystemStats | None = None
    container_filesystem: FilesystemStats | None = None
    """``None`` if writable layers are stored on the image file system."""
    interfaces: Sequence[InterfaceStats] = ()
    max_pids: int | None = None
    current_pids: int | None = None
    system_containers: Sequence[ContainerUsage] = ()
    """``kubelet``, ``runtime``, ``misc`` and ``pods``, where available."""
    io: IoStats | None = None


class StatsProvider(Protocol):
    """Measures usage on demand; results may be cached for a few seconds, as the provider's settings specify.

    spec: config.volumeStatsAggPeriod
    """

    async def node(self, *, fresh: bool = False) -> NodeUsage:
        """Return the usage of the node.

        :param fresh: measure now; otherwise a cached result may be returned.
        :raises NodeAgentError: nothing could be measured.
        """
        ...

    async def pods(self, *, fresh: bool = False, volumes: bool = True) -> Sequence[PodUsage]:
        """Return the usage of every pod that has a running container.

        :param fresh: measure now; otherwise a cached result may be returned.
        :param volumes: include the last measurement of volumes.
        :raises NodeAgentError: the runtime did not respond.
        """
        ...

    async def memory(self) -> Sequence[PodUsage]:
        """Return the current memory usage of every pod that has a running container, and of its containers.

        Called under memory pressure, so the implementation should not depend on the runtime.

        :raises NodeAgentError: nothing could be measured.
        """
        ...

    async def measure_volumes(self) -> None:
        """Measure the volumes of every pod now, for later results; traverses complete directory trees.

        Never raises: a volume that cannot be measured is logged.
        """
        ...

"""Usage of the node, its pods and their containers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class CpuStats:
    """``time`` in epoch nanoseconds; what is not known is ``None``."""

    time: int
    usage_nanocores: int | None = None
    usage_core_nanoseconds: int | None = None


@dataclass(frozen=True, slots=True)
class MemoryStats:
    """Bytes but for the two counters of faults; ``available_bytes`` is ``None`` without a limit."""

    time: int
    available_bytes: int | None = None
    usage_bytes: int | None = None
    working_set_bytes: int | None = None
    rss_bytes: int | None = None
    page_faults: int | None = None
    major_page_faults: int | None = None
    swap_usage_bytes: int | None = None
    swap_available_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class FilesystemStats:
    """Size and use of a file system, or of one user's part of it: ``used_*`` is what is charged to that user."""

    time: int
    available_bytes: int | None = None
    capacity_bytes: int | None = None
    used_bytes: int | None = None
    inodes_free: int | None = None
    inodes: int | None = None
    inodes_used: int | None = None


@dataclass(frozen=True, slots=True)
class InterfaceStats:
    """Counters of a network interface since it exists."""

    name: str
    rx_bytes: int = 0
    rx_errors: int = 0
    tx_bytes: int = 0
    tx_errors: int = 0


@dataclass(frozen=True, slots=True)
class ContainerUsage:
    """A running container, or a system container such as ``pods``, ``kubelet`` and ``runtime``."""

    name: str
    start_time: int
    """Epoch nanoseconds."""
    cpu: CpuStats | None = None
    memory: MemoryStats | None = None
    rootfs: FilesystemStats | None = None
    logs: FilesystemStats | None = None
    container_id: str = ""


@dataclass(frozen=True, slots=True)
class VolumeUsage:
    name: str
    filesystem: FilesystemStats
    claim: tuple[str, str] | None = None
    """Namespace and name of the persistent volume claim."""
    local_ephemeral: bool = False
    """Whether its use counts as the pod's ephemeral storage."""


@dataclass(frozen=True, slots=True)
class PodUsage:
    uid: str
    namespace: str
    name: str
    start_time: int
    containers: Sequence[ContainerUsage] = ()
    cpu: CpuStats | None = None
    memory: MemoryStats | None = None
    interfaces: Sequence[InterfaceStats] = ()
    """The default one first."""
    volumes: Sequence[VolumeUsage] = ()
    ephemeral_storage: FilesystemStats | None = None
    """Logs, writable layers and local ephemeral volumes together."""
    process_count: int | None = None


@dataclass(frozen=True, slots=True)
class NodeUsage:
    start_time: int
    cpu: CpuStats | None = None
    memory: MemoryStats | None = None
    filesystem: FilesystemStats | None = None
    """Of the agent's root directory (``nodefs``)."""
    image_filesystem: FilesystemStats | None = None
    container_filesystem: FilesystemStats | None = None
    """``None`` where writable layers are on the image file system."""
    interfaces: Sequence[InterfaceStats] = ()
    max_pids: int | None = None
    current_pids: int | None = None
    system_containers: Sequence[ContainerUsage] = ()
    """``kubelet``, ``runtime``, ``misc`` and ``pods`` as far as they are known."""


class StatsProvider(Protocol):
    """Measures on demand; answers are as old as the provider says in its settings, at most some seconds.

    spec: config.volumeStatsAggPeriod
    """

    async def node(self, *, fresh: bool = False) -> NodeUsage:
        """Return the use of the node.

        :param fresh: measure now; otherwise a recent measure may be returned.
        :raises NodeAgentError: nothing could be measured.
        """
        ...

    async def pods(self, *, fresh: bool = False, volumes: bool = True) -> Sequence[PodUsage]:
        """Return the use of every pod that has a running container; with *volumes* what was last measured of them.

        :raises NodeAgentError: the runtime did not answer.
        """
        ...

    async def memory(self) -> Sequence[PodUsage]:
        """Return how much memory every pod that has a running container uses now, and its containers, nothing else.

        It is asked where the node runs out of memory: an answer that can do without the runtime is the better one.

        :raises NodeAgentError: nothing could be measured.
        """
        ...

    async def measure_volumes(self) -> None:
        """Measure the volumes of every pod now, for the answers that follow; reads whole directory trees."""
        ...

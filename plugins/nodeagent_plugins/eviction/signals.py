"""What the eviction signals observe, on which layout of disks, and what they are about. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum, StrEnum

from nodeagent.base.quantity import Format, Quantity
from nodeagent.contracts.stats import FilesystemStats, MemoryStats, NodeUsage
from nodeagent.model.eviction_thresholds import Signal, Threshold
from nodeagent.model.resources import EPHEMERAL_STORAGE, MEMORY

INODES = "inodes"
PIDS = "pids"
PODS_CONTAINER = "pods"


class Condition(StrEnum):
    """Conditions of a node that is short of something."""

    MEMORY = "MemoryPressure"
    DISK = "DiskPressure"
    PID = "PIDPressure"


class Layout(Enum):
    """Which file systems images and writable layers are on."""

    SINGLE = "single"
    """Everything is on the file system of the agent's root directory."""
    DEDICATED = "dedicated"
    """Images and layers share another one."""
    SPLIT = "split"
    """Images are on another one, layers on that of the root directory."""


@dataclass(frozen=True, slots=True)
class Observation:
    """What is left, of how much, in bytes, inodes or processes; ``time`` in epoch nanoseconds, 0 when unknown."""

    available: int
    capacity: int
    time: int = 0


_MEMORY_SIGNALS = frozenset({Signal.MEMORY, Signal.ALLOCATABLE_MEMORY})
_INODE_SIGNALS = frozenset({Signal.NODEFS_INODES, Signal.IMAGEFS_INODES, Signal.CONTAINERFS_INODES})
_SPLIT_COPIES = {Signal.NODEFS: Signal.CONTAINERFS, Signal.NODEFS_INODES: Signal.CONTAINERFS_INODES}


def about_memory(signal: Signal) -> bool:
    return signal in _MEMORY_SIGNALS


def about_disk(signal: Signal) -> bool:
    return signal not in _MEMORY_SIGNALS and signal is not Signal.PID


def resource_of(signal: Signal) -> str:
    """Return what is short when *signal* is below its threshold, as messages name it."""
    if signal in _MEMORY_SIGNALS:
        return MEMORY
    if signal is Signal.PID:
        return PIDS
    return INODES if signal in _INODE_SIGNALS else EPHEMERAL_STORAGE


def condition_of(signal: Signal) -> Condition:
    if signal in _MEMORY_SIGNALS:
        return Condition.MEMORY
    return Condition.PID if signal is Signal.PID else Condition.DISK


def shown(signal: Signal, amount: int) -> Quantity:
    """Return *amount* as people read it: powers of two for bytes, of ten for what is counted."""
    counted = signal in _INODE_SIGNALS or signal is Signal.PID
    return Quantity(amount, format=Format.DECIMAL if counted else Format.BINARY)


def observe(node: NodeUsage) -> dict[Signal, Observation]:
    """Return what can be told from *node*; a signal that nothing is known of is absent."""
    found: dict[Signal, Observation | None] = {Signal.MEMORY: _of_memory(node.memory)}
    pods = next((system for system in node.system_containers if system.name == PODS_CONTAINER), None)
    found[Signal.ALLOCATABLE_MEMORY] = _of_memory(pods.memory) if pods is not None else None
    for space, inodes, filesystem in (
        (Signal.NODEFS, Signal.NODEFS_INODES, node.filesystem),
        (Signal.IMAGEFS, Signal.IMAGEFS_INODES, node.image_filesystem),
        (Signal.CONTAINERFS, Signal.CONTAINERFS_INODES, node.container_filesystem),
    ):
        found[space], found[inodes] = _of_filesystem(filesystem)
    if node.max_pids is not None and node.current_pids is not None:
        found[Signal.PID] = Observation(node.max_pids - node.current_pids, node.max_pids)
    return {signal: seen for signal, seen in found.items() if seen is not None}


def with_computed(thresholds: Sequence[Threshold], layout: Layout) -> tuple[Threshold, ...]:
    """Return *thresholds* and those of the disk of writable layers, where it is watched apart from the others."""
    if layout is not Layout.SPLIT:
        return tuple(thresholds)
    copies = (replace(t, signal=_SPLIT_COPIES[t.signal]) for t in thresholds if t.signal in _SPLIT_COPIES)
    return (*thresholds, *copies)


def is_met(threshold: Threshold, seen: Mapping[Signal, Observation], *, with_reclaim: bool = False) -> bool:
    """Tell whether less is left than *threshold* allows; what is not observed is not met.

    :param with_reclaim: ask for the minimum reclaim on top, as a threshold does that was met before.
    """
    observed = seen.get(threshold.signal)
    if observed is None:
        return False
    limit = threshold.limit.of(observed.capacity)
    if with_reclaim and threshold.minimum_reclaim is not None:
        limit += threshold.minimum_reclaim.of(observed.capacity)
    return observed.available < limit


def _of_memory(memory: MemoryStats | None) -> Observation | None:
    if memory is None or memory.available_bytes is None or memory.working_set_bytes is None:
        return None
    return Observation(memory.available_bytes, memory.available_bytes + memory.working_set_bytes, memory.time)


def _of_filesystem(system: FilesystemStats | None) -> tuple[Observation | None, Observation | None]:
    if system is None:
        return None, None
    space = inodes = None
    if system.available_bytes is not None and system.capacity_bytes is not None:
        space = Observation(system.available_bytes, system.capacity_bytes, system.time)
    if system.inodes_free is not None and system.inodes:  # some file systems have no fixed number of them
        inodes = Observation(system.inodes_free, system.inodes, system.time)
    return space, inodes

"""Eviction signals: observations per file system layout, and resources. No I/O."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from enum import Enum, StrEnum

from nodeagent.base.quantity import Format, Quantity
from nodeagent.base.structs import Struct
from nodeagent.contracts.stats import FilesystemStats, MemoryStats, NodeUsage
from nodeagent.model.eviction_thresholds import Signal, Threshold
from nodeagent.model.resources import EPHEMERAL_STORAGE, MEMORY

INODES = "inodes"
PIDS = "pids"
PODS_CONTAINER = "pods"


class Condition(StrEnum):
    """Pressure conditions of a node."""

    MEMORY = "MemoryPressure"
    DISK = "DiskPressure"
    PID = "PIDPressure"


class Layout(Enum):
    """Assignment of images and writable layers to file systems."""

    SINGLE = "single"
    """Images and layers are on the file system of the agent's root directory."""
    DEDICATED = "dedicated"
    """Images and layers share a separate file system."""
    SPLIT = "split"
    """Images are on a separate file system, layers on that of the root directory."""


class Observation(Struct, frozen=True):
    """Available amount and capacity in bytes, inodes or processes; ``time`` in epoch nanoseconds, 0 if unknown."""

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
    """Return the name of the resource of *signal* in messages."""
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
    """Return *amount* for display: binary units for bytes, decimal ones for counts."""
    counted = signal in _INODE_SIGNALS or signal is Signal.PID
    return Quantity(amount, format=Format.DECIMAL if counted else Format.BINARY)


def observe(node: NodeUsage) -> dict[Signal, Observation]:
    """Return the observations from *node*; unknown signals are omitted."""
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
    """Return *thresholds*, with copies for the disk of writable layers if that is separate."""
    if layout is not Layout.SPLIT:
        return tuple(thresholds)
    copies = (replace(t, signal=_SPLIT_COPIES[t.signal]) for t in thresholds if t.signal in _SPLIT_COPIES)
    return (*thresholds, *copies)


def is_met(threshold: Threshold, seen: Mapping[Signal, Observation], *, with_reclaim: bool = False) -> bool:
    """Return whether the available amount is below *threshold*; an unknown signal is not.

    :param with_reclaim: add the minimum reclaim, which applies to a threshold that was met before.
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
    if system.inodes_free is not None and system.inodes:  # Some file systems have no fixed number of inodes.
        inodes = Observation(system.inodes_free, system.inodes, system.time)
    return space, inodes

"""Checksums of state files, compatible with the kubelet, so that each can read the other's files. No I/O.

The kubelet hashes (32-bit FNV-1a) the structure as printed by Go, so the text contains names of Go types.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

Fingerprint = Callable[[Mapping[str, Any]], int]
"""Computes the checksum of a state; raises ``AttributeError``, ``KeyError`` or ``TypeError`` if it is invalid."""

_BASIS, _PRIME = 0x811C9DC5, 0x01000193
_TABLE = (
    ("TotalMemSize", "total"),
    ("SystemReserved", "systemReserved"),
    ("Allocatable", "allocatable"),
    ("Reserved", "reserved"),
    ("Free", "free"),
)


def of_cpus(state: Mapping[str, Any]) -> int:
    """Return the checksum of ``cpu_manager_state``."""
    entries = _map((uid, _map(held.items())) for uid, held in (state.get("entries") or {}).items())
    return _fnv(
        f"(*state.CPUManagerCheckpoint){{PolicyName:(string){state['policyName']} "
        f"DefaultCPUSet:(string){state['defaultCpuSet']} Entries:(map[string]map[string]string){entries} "
        f"Checksum:(checksum.Checksum)0}}"
    )


def of_memory(state: Mapping[str, Any]) -> int:
    """Return the checksum of ``memory_manager_state``."""
    nodes = _map((int(number), _node(node)) for number, node in (state.get("machineState") or {}).items())
    entries = _map(
        (uid, _map((name, _list(map(_block, blocks))) for name, blocks in held.items()))
        for uid, held in (state.get("entries") or {}).items()
    )
    return _fnv(
        f"(*state.MemoryManagerCheckpoint){{PolicyName:(string){state['policyName']} "
        f"MachineState:(state.NUMANodeMap){nodes} Entries:(state.ContainerMemoryAssignments){entries} "
        f"Checksum:(checksum.Checksum)0}}"
    )


def _node(node: Mapping[str, Any]) -> str:
    tables = _map(
        (resource, "<*>{" + " ".join(f"{field}:(uint64){table[key]}" for field, key in _TABLE) + "}")
        for resource, table in node["memoryMap"].items()
    )
    return (
        f"<*>{{NumberOfAssignments:(int){node['numberOfAssignments']} "
        f"MemoryMap:(map[v1.ResourceName]*state.MemoryTable){tables} Cells:([]int){_list(node['cells'])}}}"
    )


def _block(block: Mapping[str, Any]) -> str:
    return (
        f"{{NUMAAffinity:([]int){_list(block['numaAffinity'])} Type:(v1.ResourceName){block['type']} "
        f"Size:(uint64){block['size']}}}"
    )


def _map(items: Iterable[tuple[Any, str]]) -> str:
    return f"map[{' '.join(f'{key}:{value}' for key, value in sorted(items))}]"


def _list(items: Iterable[object]) -> str:
    return f"[{' '.join(map(str, items))}]"


def _fnv(text: str) -> int:
    found = _BASIS
    for byte in text.encode():
        found = (found ^ byte) * _PRIME & 0xFFFFFFFF
    return found

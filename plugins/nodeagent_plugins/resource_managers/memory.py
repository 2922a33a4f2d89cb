"""Memory and huge pages of guaranteed containers by NUMA node. No I/O.

A node provides memory either to containers that fit on it, or to those of one group of nodes, never both.
spec: config.memoryManagerPolicy, config.reservedMemory
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from msgspec import field

from nodeagent.base.structs import MutableStruct
from nodeagent.contracts.topology import Hint, Hints
from nodeagent.model.pod import Container, Pod
from nodeagent.model.qos import QosClass, qos_class
from nodeagent.model.resources import (
    HUGEPAGES_PREFIX,
    MEMORY,
    container_limits,
    container_requests,
    has_pod_level_resources,
)
from nodeagent_plugins.resource_managers.alignment import masks, narrowest
from nodeagent_plugins.resource_managers.errors import AllocationFailed, StaleState
from nodeagent_plugins.resource_managers.topology import Topology

Amounts = Mapping[str, int]
"""Bytes by resource."""

_COLUMNS = ("total", "systemReserved", "allocatable", "reserved", "free")


class Table(MutableStruct):
    """Bytes of one resource on one node."""

    total: int
    kept: int
    """Reserved for the system."""
    allocatable: int
    reserved: int = 0
    free: int = 0


class NodeState(MutableStruct):
    """Assigned memory of one node, and the group of nodes it belongs to."""

    cells: list[int]
    tables: dict[str, Table]
    assignments: int = 0

    def reserve(self, resource: str, size: int) -> int:
        """Assign up to *size* bytes; return the remainder."""
        table = self.tables[resource]
        given = min(size, table.free)
        table.reserved += given
        table.free -= given
        return size - given

    def release_bytes(self, resource: str, size: int) -> int:
        """Release up to *size* bytes; return the remainder."""
        table = self.tables[resource]
        taken = min(size, table.reserved)
        table.reserved -= taken
        table.free += taken
        return size - taken


class Block(MutableStruct):
    """One resource of one container."""

    nodes: list[int]
    resource: str
    size: int


class _Reusable(MutableStruct):
    """Memory of a pod's init containers by nodes and resource, which its other containers reuse."""

    uid: str = ""
    sizes: dict[tuple[frozenset[int], str], int] = field(default_factory=dict)


class MemoryAssignments:
    """Memory assignments of all containers.

    :param reserved: reserved bytes by node and resource.
    """

    def __init__(self, topology: Topology, reserved: Mapping[int, Amounts]) -> None:
        self._topology, self._reserved = topology, reserved
        self.nodes = self._empty()
        self.entries: dict[str, dict[str, list[Block]]] = {}
        self._reusable = _Reusable()

    def nodes_of(self, uid: str, container: str) -> frozenset[int]:
        """Return the NUMA nodes of a container's memory; empty if it is not pinned."""
        return frozenset(node for block in self.entries.get(uid, {}).get(container, ()) for node in block.nodes)

    # --- hints ----------------------------------------------------------------------------------------------

    def container_hints(self, pod: Pod, container: Container) -> Hints:
        """Return the topology hints of a container; empty if it is not pinned."""
        if not is_pinned(pod):
            return {}
        requested = _requests(container)
        held = self.entries.get(pod.uid, {}).get(container.name)
        return _hints_of(held, requested) if held is not None else self._hints(pod.uid, requested)

    def pod_hints(self, pod: Pod) -> Hints:
        """Return the topology hints of a pod."""
        if not is_pinned(pod):
            return {}
        requested = _pod_requests(pod)
        for held in self.entries.get(pod.uid, {}).values():
            return _hints_of(held, requested)
        return self._hints(pod.uid, requested)

    def _hints(self, uid: str, requested: Amounts) -> dict[str, list[Hint]]:
        fitting: list[frozenset[int]] = []
        smallest = len(self.nodes)
        for mask in masks(self.nodes):
            if any(self._sum(mask, resource, "allocatable") < size for resource, size in requested.items()):
                continue
            smallest = min(smallest, len(mask))
            if self._usable(mask) and all(
                self._sum(mask, resource, "free") + self._reusable_by(uid, mask, resource) >= size
                for resource, size in requested.items()
            ):
                fitting.append(mask)
        hints = [Hint(mask, len(mask) == smallest) for mask in fitting]
        return dict.fromkeys(requested, hints)

    def _usable(self, mask: frozenset[int]) -> bool:
        """Return whether the nodes are free or already form this group; a single node must not be in a group."""
        states = [self.nodes[node] for node in mask]
        if len(states) == 1:
            return len(states[0].cells) == 1
        return all(not state.assignments or frozenset(state.cells) == mask for state in states)

    def _sum(self, mask: Iterable[int], resource: str, column: str) -> int:
        tables = (self.nodes[node].tables.get(resource) for node in mask)
        return sum(getattr(table, column) for table in tables if table is not None)

    # --- allocation -----------------------------------------------------------------------------------------

    def allocate(self, pod: Pod, container: Container, hint: Hint) -> bool:
        """Pin the memory of a guaranteed container to the nodes of *hint*; return whether anything changed.

        :raises AllocationFailed: no set of nodes has enough memory.
        """
        if not is_pinned(pod):
            return False
        held = self.entries.get(pod.uid, {}).get(container.name)
        if held is not None:
            self._note_reusable(pod, container, held)
            return False
        requested = _requests(container)
        mask = self._choose(pod.uid, requested, hint)
        blocks = [Block(sorted(mask), resource, size) for resource, size in sorted(requested.items())]
        for block in blocks:
            missing = max(block.size - self._reusable_by(pod.uid, mask, block.resource), 0)
            _reserve(self.nodes, block, missing)
        self._note_reusable(pod, container, blocks)
        self._shrink_init_containers(pod, container, blocks)
        self.entries.setdefault(pod.uid, {})[container.name] = blocks
        return True

    def release(self, uid: str) -> bool:
        """Release the memory of the pod; return whether it had any."""
        held = self.entries.pop(uid, {})
        for block in (block for blocks in held.values() for block in blocks):
            left = block.size
            for number in block.nodes:
                state = self.nodes[number]
                state.assignments -= 1
                if not state.assignments:
                    state.cells = [number]
                left = state.release_bytes(block.resource, left)
        return bool(held)

    def _choose(self, uid: str, requested: Amounts, hint: Hint) -> frozenset[int]:
        if hint.nodes is not None and self._has(uid, hint.nodes, requested):
            return hint.nodes
        around = hint.nodes or frozenset()
        found = [each for each in self._hints(uid, requested).get(MEMORY, []) if each.nodes and around <= each.nodes]
        best = narrowest(found)
        if best is None or best.nodes is None:
            detail = "to extend the current topology hint" if around else "with enough memory"
            raise AllocationFailed(f"[memorymanager] failed to find NUMA nodes {detail}")
        if hint.preferred and not best.preferred:
            raise AllocationFailed("[memorymanager] failed to find the preferred NUMA nodes")
        return best.nodes

    def _has(self, uid: str, mask: frozenset[int], requested: Amounts) -> bool:
        return all(
            self._sum(mask, resource, "free") + self._reusable_by(uid, mask, resource) >= size
            for resource, size in requested.items()
        )

    def _reusable_by(self, uid: str, mask: frozenset[int], resource: str) -> int:
        return self._reusable.sizes.get((mask, resource), 0) if self._reusable.uid == uid else 0

    def _note_reusable(self, pod: Pod, container: Container, blocks: Sequence[Block]) -> None:
        if self._reusable.uid != pod.uid:
            self._reusable = _Reusable(pod.uid)
        sizes = self._reusable.sizes
        ends = container in (pod.spec.init_containers or ()) and not container.restartable_init
        for block in blocks:
            unit = (frozenset(block.nodes), block.resource)
            before = sizes.get(unit, 0)
            sizes[unit] = max(before, block.size) if ends else max(before - block.size, 0)

    def _shrink_init_containers(self, pod: Pod, container: Container, blocks: Sequence[Block]) -> None:
        """Reduce the blocks of completed init containers to the part that no later container reuses."""
        held = self.entries.get(pod.uid, {})
        for block in blocks:
            left = block.size
            for earlier in pod.spec.init_containers or ():
                if earlier.name == container.name:
                    break
                for other in () if earlier.restartable_init else held.get(earlier.name, ()):
                    if (other.resource, other.nodes) == (block.resource, block.nodes):
                        shared = min(other.size, left)
                        other.size -= shared
                        left -= shared

    # --- state ----------------------------------------------------------------------------------------------

    def to_state(self) -> dict[str, Any]:
        return {
            "machineState": {
                str(number): {
                    "numberOfAssignments": state.assignments,
                    "memoryMap": {resource: _to_columns(table) for resource, table in state.tables.items()},
                    "cells": state.cells,
                }
                for number, state in self.nodes.items()
            },
            "entries": {
                uid: {
                    name: [{"numaAffinity": block.nodes, "type": block.resource, "size": block.size} for block in held]
                    for name, held in containers.items()
                }
                for uid, containers in self.entries.items()
            },
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        """Restore the state from before a restart.

        :raises StaleState: the host or the reservations changed.
        """
        try:
            entries = {
                uid: {
                    name: [Block(list(block["numaAffinity"]), block["type"], block["size"]) for block in held]
                    for name, held in containers.items()
                }
                for uid, containers in state["entries"].items()
            }
            written = {
                int(number): NodeState(
                    list(node["cells"]),
                    {
                        resource: Table(*(columns[name] for name in _COLUMNS))
                        for resource, columns in node["memoryMap"].items()
                    },
                    node["numberOfAssignments"],
                )
                for number, node in state["machineState"].items()
            }
            expected = self._empty()
            for block in (block for held in entries.values() for blocks in held.values() for block in blocks):
                _reserve(expected, block, block.size)
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise StaleState(f"entries do not match the host: {error!r}") from error
        if _comparable(written) != _comparable(expected):
            raise StaleState("the expected machine state is different from the real one")  # wording: ok
        self.entries, self.nodes = entries, written

    def _empty(self) -> dict[int, NodeState]:
        nodes = {}
        for number, node in self._topology.nodes.items():
            kept = self._reserved.get(number, {})
            sizes = {MEMORY: node.memory, **node.huge_pages}
            paged = {MEMORY: sum(node.huge_pages.values())}
            tables = {}
            for resource, total in sizes.items():
                allocatable = max(total - kept.get(resource, 0) - paged.get(resource, 0), 0)
                tables[resource] = Table(total, kept.get(resource, 0), allocatable, free=allocatable)
            nodes[number] = NodeState([number], tables)
        return nodes


def _to_columns(table: Table) -> dict[str, int]:
    values = (table.total, table.kept, table.allocatable, table.reserved, table.free)
    return dict(zip(_COLUMNS, values, strict=True))


def _reserve(nodes: Mapping[int, NodeState], block: Block, size: int) -> None:
    for number in block.nodes:
        state = nodes[number]
        state.assignments += 1
        state.cells = list(block.nodes)
        size = state.reserve(block.resource, size)


def _comparable(nodes: Mapping[int, NodeState]) -> object:
    """Return a comparable form of a state; within a group the distribution over nodes is irrelevant."""
    fixed = {
        number: (
            state.assignments,
            sorted(state.cells),
            {resource: (table.total, table.kept, table.allocatable) for resource, table in state.tables.items()},
        )
        for number, state in nodes.items()
    }
    given: dict[tuple[tuple[int, ...], str], int] = {}
    for state in nodes.values():
        for resource, table in state.tables.items():
            unit = (tuple(sorted(state.cells)), resource)
            given[unit] = given.get(unit, 0) + table.reserved
    return fixed, given


def _hints_of(held: Sequence[Block], requested: Amounts) -> dict[str, list[Hint]]:
    """Return the current nodes as the only hint; empty if the requested amounts changed."""
    if {block.resource: block.size for block in held} != dict(requested):
        return {}
    return {block.resource: [Hint(frozenset(block.nodes), preferred=True)] for block in held}


def is_pinned(pod: Pod) -> bool:
    """Return whether containers of *pod* are pinned; those of a pod with pod-level resources are not."""
    return qos_class(pod) is QosClass.GUARANTEED and not has_pod_level_resources(pod)


def _requests(container: Container) -> dict[str, int]:
    amounts = {**container_limits(container), **container_requests(container)}
    return {
        resource: amount.value()
        for resource, amount in amounts.items()
        if amount and (resource == MEMORY or resource.startswith(HUGEPAGES_PREFIX))
    }


def _pod_requests(pod: Pod) -> dict[str, int]:
    starting: dict[str, int] = {}
    sidecars: dict[str, int] = {}
    running: dict[str, int] = {}
    for container in pod.spec.init_containers or ():
        for resource, size in _requests(container).items():
            if container.restartable_init:
                sidecars[resource] = sidecars.get(resource, 0) + size
            else:
                starting[resource] = max(starting.get(resource, 0), sidecars.get(resource, 0) + size)
    for container in pod.spec.containers:
        for resource, size in _requests(container).items():
            running[resource] = running.get(resource, 0) + size
    return {
        resource: max(size + sidecars.get(resource, 0), starting.get(resource, 0)) for resource, size in running.items()
    }

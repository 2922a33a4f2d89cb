"""Selection of CPUs: packed as closely as possible, or distributed evenly over NUMA nodes or cores. No I/O.

spec: config.cpuManagerPolicyOptions
"""

from __future__ import annotations

import itertools
import statistics
from collections.abc import Collection, Iterable, Mapping, Sequence

from nodeagent_plugins.resource_managers.errors import AllocationFailed
from nodeagent_plugins.resource_managers.topology import Level, Topology


def take_packed(
    topology: Topology, available: frozenset[int], count: int, *, by_cache: bool = False, across_cores: bool = False
) -> frozenset[int]:
    """Return *count* CPUs: full sockets and NUMA nodes first, then full cores, then threads.

    The units with the fewest free CPUs come first.

    :param by_cache: prefer full last-level caches, then one cache with enough free CPUs, to full cores.
    :param across_cores: prefer CPUs of different cores to full cores.
    :raises AllocationFailed: not enough CPUs are available.
    """
    check_room(available, count)
    selection = _Selection(topology, available, count)
    for level in _levels(topology):
        selection.take_full(level)
    if by_cache:
        selection.take_full("cache")
        selection.take_one_cache()
    if across_cores:
        selection.take_across_cores()
    else:
        selection.take_full("core")
        selection.take_threads()
    return frozenset(selection.taken)


class _Selection:
    """CPUs that are selected step by step until there are *count*."""

    def __init__(self, topology: Topology, available: frozenset[int], count: int) -> None:
        self._topology, self._free, self._missing = topology, set(available), count
        self.taken: set[int] = set()

    def take_full(self, level: Level) -> None:
        """Take units of *level* of which all CPUs are free and required."""
        for unit in _ordered(self._topology, self._free)[level]:
            members = self._topology.within(level, [unit])
            if members <= self._free and len(members) <= self._missing:
                self._take(members)

    def take_one_cache(self) -> None:
        """Take the missing CPUs from the first cache that has enough of them."""
        for cache in _ordered(self._topology, self._free)["cache"]:
            free = self._topology.within("cache", [cache]) & self._free
            if self._missing <= len(free):
                self._take(take_packed(self._topology, free, self._missing))

    def take_across_cores(self) -> None:
        """Take the missing CPUs in the order of their numbers, which alternates between cores, socket by socket."""
        for socket in _ordered(self._topology, self._free)["socket"]:
            free = sorted(self._topology.within("socket", [socket]) & self._free)
            self._take(free[: self._missing])

    def take_threads(self) -> None:
        """Take the missing CPUs core by core."""
        for core in _ordered(self._topology, self._free)["core"]:
            threads = sorted(self._topology.within("core", [core]) & self._free)
            self._take(threads[: self._missing])

    def _take(self, cpus: Collection[int]) -> None:
        self.taken.update(cpus)
        self._free.difference_update(cpus)
        self._missing -= len(cpus)


def take_distributed(topology: Topology, available: frozenset[int], count: int, group: int) -> frozenset[int]:
    """Return *count* CPUs in equal parts from the smallest possible number of NUMA nodes, balancing the remainders.

    :param group: number of CPUs that are assigned together: those of a core if only full cores are assigned, else 1.
    :raises AllocationFailed: not enough CPUs are available.
    """
    check_room(available, count)
    if not count or count % group:
        return take_packed(topology, available, count)
    rooms = {node: len(available & topology.within("node", [node])) for node in topology.ids("node", available)}
    nodes = _ordered(topology, available)["node"]
    groups = count // group
    per_node = -(-len(topology.cpus) // group // len(topology.ids("node")))
    for number in range(-(-groups // per_node), min(groups, len(nodes)) + 1):
        shares = _best_shares(rooms, nodes, number, count, group)
        if shares:
            return frozenset().union(
                *(
                    take_packed(topology, available & topology.within("node", [node]), share)
                    for node, share in shares.items()
                )
            )
    return take_packed(topology, available, count)


def _best_shares(rooms: Mapping[int, int], nodes: Sequence[int], number: int, count: int, group: int) -> dict[int, int]:
    """Return the CPUs per node for *number* nodes with the most even remainders; empty if impossible."""
    best: dict[int, int] = {}
    best_balance = float("inf")
    share = count // number // group * group
    for combination in itertools.combinations(nodes, number):
        if any(rooms[node] < share for node in combination):
            continue
        rest = (count - share * number) // group
        with_more = [node for node in combination if rooms[node] - share >= group]
        subsets: Iterable[tuple[int, ...]] = (
            itertools.chain.from_iterable(
                itertools.combinations(with_more, size) for size in range(len(with_more), 0, -1)
            )
            if rest
            else [()]
        )
        for subset in subsets:
            shares = _with_rest(dict.fromkeys(combination, share), rooms, subset, rest, group)
            if shares is None:
                continue
            balance = round(statistics.pstdev(rooms[node] - shares.get(node, 0) for node in nodes), 3)
            if balance < best_balance:
                best, best_balance = shares, balance
    return best


def _with_rest(
    shares: dict[int, int], rooms: Mapping[int, int], subset: Sequence[int], rest: int, group: int
) -> dict[int, int] | None:
    """Distribute *rest* groups over the nodes of *subset*; ``None`` if they do not have that many."""
    while rest:
        before = rest
        for node in subset:
            if rest and rooms[node] - shares[node] >= group:
                shares[node] += group
                rest -= 1
        if rest == before:
            return None
    return shares


def _levels(topology: Topology) -> tuple[Level, Level]:
    """Return the outer and the inner level of sockets and NUMA nodes."""
    return ("node", "socket") if len(topology.ids("socket")) >= len(topology.ids("node")) else ("socket", "node")


def _ordered(topology: Topology, free: Iterable[int]) -> dict[Level, list[int]]:
    """Return the units with free CPUs per level, those with the fewest free CPUs first, within their outer unit."""
    left, (outer, inner) = frozenset(free), _levels(topology)

    def order(level: Level, cpus: frozenset[int]) -> list[int]:
        return sorted(topology.ids(level, cpus), key=lambda unit: (len(left & topology.within(level, [unit])), unit))

    outers = order(outer, left)
    inners = [unit for around in outers for unit in order(inner, left & topology.within(outer, [around]))]
    inners = list(dict.fromkeys(inners))
    cores = [unit for around in inners for unit in order("core", left & topology.within(inner, [around]))]
    nodes = outers if outer == "node" else inners
    caches = [unit for node in nodes for unit in order("cache", left & topology.within("node", [node]))]
    return {outer: outers, inner: inners, "cache": list(dict.fromkeys(caches)), "core": list(dict.fromkeys(cores))}


def check_room(available: frozenset[int], count: int) -> None:
    """Check that *available* contains enough CPUs.

    :raises AllocationFailed: not enough CPUs are available.
    """
    if count > len(available):
        raise AllocationFailed(
            f"not enough cpus available to satisfy request: requested={count}, available={len(available)}"
        )

"""CPU and memory topology of the host: sockets, cores and NUMA nodes."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Literal

from msgspec import field

from nodeagent.base.cpu_list import parse_cpu_list
from nodeagent.base.hugepages import HOST_HUGE_PAGES, read_huge_pages
from nodeagent.base.quantity import Format, Quantity
from nodeagent.base.structs import Struct
from nodeagent.errors import NodeAgentError
from nodeagent.model.resources import HUGEPAGES_PREFIX

Level = Literal["core", "cache", "socket", "node"]
_KIBI = 1024
_PRIVATE_CACHE_LEVEL = 2
"""Caches up to this level belong to one core."""


class CpuLocation(Struct, frozen=True):
    """Location of one CPU (hardware thread).

    A core and a last-level cache are identified by their lowest CPU, which is unique. CPUs whose cache is shared with
    their entire NUMA node have the lowest CPU of their socket instead.
    """

    core: int
    socket: int
    node: int
    cache: int


class NumaNode(Struct, frozen=True):
    """Memory of one NUMA node in bytes, and its part in huge pages by resource name."""

    memory: int = 0
    huge_pages: Mapping[str, int] = field(default_factory=dict)
    distances: Mapping[int, int] = field(default_factory=dict)
    """Distance to each node from the firmware; empty if unknown."""


class Topology(Struct, frozen=True):
    """Online CPUs and NUMA nodes."""

    cpus: Mapping[int, CpuLocation]
    nodes: Mapping[int, NumaNode]

    @property
    def all(self) -> frozenset[int]:
        return frozenset(self.cpus)

    @property
    def cpus_per_core(self) -> int:
        return len(self.cpus) // max(len(self.ids("core")), 1)

    def ids(self, level: Level, cpus: Iterable[int] | None = None) -> frozenset[int]:
        """Return the cores, caches, sockets or nodes of *cpus*; of all CPUs by default."""
        return frozenset(getattr(self.cpus[cpu], level) for cpu in (self.cpus if cpus is None else cpus))

    def within(self, level: Level, ids: Iterable[int]) -> frozenset[int]:
        """Return the CPUs of the given cores, caches, sockets or nodes."""
        requested = frozenset(ids)
        return frozenset(cpu for cpu, unit in self.cpus.items() if getattr(unit, level) in requested)


def format_cpu_list(cpus: Iterable[int]) -> str:
    """Format CPUs or NUMA nodes as a list such as ``0-3,8``."""
    runs: list[list[int]] = []
    for cpu in sorted(cpus):
        if runs and cpu == runs[-1][1] + 1:
            runs[-1][1] = cpu
        else:
            runs.append([cpu, cpu])
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in runs)


def read_topology(root: Path = Path("/")) -> Topology:
    """Read the topology from files below *root*; without NUMA support there is one node 0. Blocks for milliseconds.

    :raises NodeAgentError: the kernel does not report its CPUs.
    """
    system = root / "sys/devices/system"
    online = _list(system / "cpu/online")
    if not online:
        raise NodeAgentError(f"{system / 'cpu/online'} lists no CPUs")
    node_ids = _list(system / "node/online")
    nodes = {number: _read_node(system / f"node/node{number}", node_ids) for number in sorted(node_ids)}
    home = {cpu: number for number in nodes for cpu in _list(system / f"node/node{number}/cpulist")}
    if not nodes:
        nodes = {0: NumaNode(_meminfo(root / "proc/meminfo"), _huge_pages(root / HOST_HUGE_PAGES))}
    cores: dict[tuple[int, int], int] = {}
    sockets: dict[int, int] = {}
    cpus: dict[int, CpuLocation] = {}
    for cpu in sorted(online):
        unit = system / f"cpu/cpu{cpu}/topology"
        socket = max(_number(unit / "physical_package_id"), 0)
        core = cores.setdefault((socket, _number(unit / "core_id", cpu)), cpu)
        node = home.get(cpu, 0)
        shared = _last_level_cache(system / f"cpu/cpu{cpu}") & online
        around = frozenset(each for each in online if home.get(each, 0) == node)
        cache = min(shared) if shared and shared != around else sockets.setdefault(socket, cpu)
        cpus[cpu] = CpuLocation(core, socket, node, cache)
    return Topology(cpus, nodes)


def _last_level_cache(cpu: Path) -> frozenset[int]:
    """Return the CPUs that share the cache of level 3 or higher; empty if there is none."""
    levels = {_number(index / "level"): index for index in sorted(cpu.glob("cache/index*"))}
    level = max(levels, default=0)
    return _list(levels[level] / "shared_cpu_list") if level > _PRIVATE_CACHE_LEVEL else frozenset()


def _read_node(unit: Path, nodes: frozenset[int]) -> NumaNode:
    distances = (_text(unit / "distance") or "").split()
    return NumaNode(
        _meminfo(unit / "meminfo"),
        _huge_pages(unit / "hugepages"),
        dict(zip(sorted(nodes), map(int, distances), strict=False)),
    )


def _huge_pages(unit: Path) -> dict[str, int]:
    return {
        f"{HUGEPAGES_PREFIX}{Quantity(size, format=Format.BINARY)}": amount
        for size, amount in read_huge_pages(unit).items()
    }


def _meminfo(file: Path) -> int:
    match = re.search(r"MemTotal:\s+(\d+) kB", _text(file) or "")
    return int(match[1]) * _KIBI if match else 0


def _list(file: Path) -> frozenset[int]:
    return parse_cpu_list((_text(file) or "").strip())


def _number(file: Path, otherwise: int = 0) -> int:
    text = (_text(file) or "").strip()
    return int(text) if text.removeprefix("-").isdigit() else otherwise


def _text(file: Path) -> str | None:
    try:
        return file.read_text(encoding="ascii", errors="replace")
    except OSError:
        return None

"""Processors and memory of the machine by socket, core and NUMA node, as the kernel tells them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from nodeagent.base.cpu_list import parse_cpu_list
from nodeagent.base.hugepages import HOST_HUGE_PAGES, read_huge_pages
from nodeagent.base.quantity import Format, Quantity
from nodeagent.errors import NodeAgentError
from nodeagent.model.resources import HUGEPAGES_PREFIX

Level = Literal["core", "socket", "node"]
_KIBI = 1024


@dataclass(frozen=True, slots=True)
class CpuLocation:
    """Where one CPU (a hardware thread) sits; a core is named by its lowest CPU, so that names are unique."""

    core: int
    socket: int
    node: int


@dataclass(frozen=True, slots=True)
class NumaNode:
    """Memory of one NUMA node in bytes, of which huge pages by resource name are part."""

    memory: int = 0
    huge_pages: Mapping[str, int] = field(default_factory=dict)
    distances: Mapping[int, int] = field(default_factory=dict)
    """To each node, as the firmware tells; empty when it does not."""


@dataclass(frozen=True, slots=True)
class Topology:
    """CPUs that are online, and the NUMA nodes."""

    cpus: Mapping[int, CpuLocation]
    nodes: Mapping[int, NumaNode]

    @property
    def all(self) -> frozenset[int]:
        return frozenset(self.cpus)

    @property
    def cpus_per_core(self) -> int:
        return len(self.cpus) // max(len(self.ids("core")), 1)

    def ids(self, level: Level, cpus: Iterable[int] | None = None) -> frozenset[int]:
        """Return the cores, sockets or nodes that *cpus* are in; of all CPUs when none are given."""
        return frozenset(getattr(self.cpus[cpu], level) for cpu in (self.cpus if cpus is None else cpus))

    def within(self, level: Level, ids: Iterable[int]) -> frozenset[int]:
        """Return the CPUs of those cores, sockets or nodes."""
        wanted = frozenset(ids)
        return frozenset(cpu for cpu, place in self.cpus.items() if getattr(place, level) in wanted)


def format_cpu_list(cpus: Iterable[int]) -> str:
    """Write CPUs or NUMA nodes as ``0-3,8``."""
    runs: list[list[int]] = []
    for cpu in sorted(cpus):
        if runs and cpu == runs[-1][1] + 1:
            runs[-1][1] = cpu
        else:
            runs.append([cpu, cpu])
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in runs)


def read_topology(root: Path = Path("/")) -> Topology:
    """Read the machine below *root*; without NUMA in the kernel all of it is node 0. Blocks for milliseconds.

    :raises NodeAgentError: the kernel does not tell its processors.
    """
    system = root / "sys/devices/system"
    online = _list(system / "cpu/online")
    if not online:
        raise NodeAgentError(f"{system / 'cpu/online'} names no processors")
    node_ids = _list(system / "node/online")
    nodes = {number: _read_node(system / f"node/node{number}", node_ids) for number in sorted(node_ids)}
    home = {cpu: number for number in nodes for cpu in _list(system / f"node/node{number}/cpulist")}
    if not nodes:
        nodes = {0: NumaNode(_meminfo(root / "proc/meminfo"), _huge_pages(root / HOST_HUGE_PAGES))}
    cores: dict[tuple[int, int], int] = {}
    cpus: dict[int, CpuLocation] = {}
    for cpu in sorted(online):
        place = system / f"cpu/cpu{cpu}/topology"
        socket = max(_number(place / "physical_package_id"), 0)
        core = cores.setdefault((socket, _number(place / "core_id", cpu)), cpu)
        cpus[cpu] = CpuLocation(core, socket, home.get(cpu, 0))
    return Topology(cpus, nodes)


def _read_node(place: Path, nodes: frozenset[int]) -> NumaNode:
    distances = (_text(place / "distance") or "").split()
    return NumaNode(
        _meminfo(place / "meminfo"),
        _huge_pages(place / "hugepages"),
        dict(zip(sorted(nodes), map(int, distances), strict=False)),
    )


def _huge_pages(place: Path) -> dict[str, int]:
    return {
        f"{HUGEPAGES_PREFIX}{Quantity(size, format=Format.BINARY)}": amount
        for size, amount in read_huge_pages(place).items()
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

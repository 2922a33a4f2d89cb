"""How large this machine is: processors, memory, huge pages and the file system that pods share."""

from __future__ import annotations

import asyncio
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from nodeagent import hookimpl
from nodeagent.base.hugepages import HOST_HUGE_PAGES, read_huge_pages
from nodeagent.base.quantity import Format, Quantity
from nodeagent.contracts.context import ConfigContext
from nodeagent.contracts.node import NodeReport

if TYPE_CHECKING:
    from nodeagent.contracts.hooks import PluginHost

_KIBI = 1024


@dataclass(frozen=True, slots=True)
class MachineSize:
    """Amounts in bytes; what the machine does not tell is 0 or absent."""

    cores: int
    memory: int
    storage: int
    hugepages: dict[int, int] = field(default_factory=dict)
    """Bytes set aside, by page size."""


@hookimpl
def nodeagent_configure(context: ConfigContext, plugins: PluginHost) -> None:
    isolation = context.config.local_storage_capacity_isolation
    plugins.register(NodeCapacity(context.root_dir if isolation else None), name="node_stats.capacity")


class NodeCapacity:
    """Reports the machine's size as the node's capacity.

    :param shared: any place on the file system that pods share; ``None`` where it is not counted
        (spec: config.localStorageCapacityIsolation).
    """

    def __init__(self, shared: Path | None, *, root: Path = Path("/")) -> None:
        self._shared, self._root = shared, root

    @hookimpl
    async def nodeagent_report_node(self) -> NodeReport:
        return NodeReport(capacity=capacity_of(await asyncio.to_thread(measure, self._shared, self._root)))


def capacity_of(size: MachineSize) -> dict[str, str]:
    """Return *size* as resource amounts; what is not known is left out."""
    capacity = {"cpu": str(size.cores)}
    if size.memory:
        capacity["memory"] = _binary(size.memory)
    if size.storage:
        capacity["ephemeral-storage"] = _binary(size.storage)
    for page, amount in sorted(size.hugepages.items()):
        capacity[f"hugepages-{_binary(page)}"] = _binary(amount)
    return capacity


def measure(shared: Path | None, root: Path = Path("/")) -> MachineSize:
    """Look at the machine; reads the disk."""
    return MachineSize(
        cores=os.cpu_count() or 1,
        memory=_memory(root / "proc/meminfo"),
        storage=_storage(shared) if shared is not None else 0,
        hugepages=read_huge_pages(root / HOST_HUGE_PAGES),
    )


def _memory(meminfo: Path) -> int:
    try:
        with meminfo.open(encoding="ascii", errors="replace") as file:
            total = next((line for line in file if line.startswith("MemTotal:")), "")
        return int(total.split()[1]) * _KIBI
    except (OSError, ValueError, IndexError):
        return 0


def _storage(place: Path) -> int:
    """Return the size of the file system of *place*, or of the nearest directory above that exists."""
    for directory in (place, *place.parents):
        try:
            status = os.statvfs(directory)
        except OSError:
            continue
        return status.f_blocks * status.f_frsize
    return 0


def _binary(amount: int) -> str:
    return str(Quantity(amount, format=Format.BINARY))

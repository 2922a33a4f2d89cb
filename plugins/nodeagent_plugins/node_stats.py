"""Node capacity: CPUs, memory, huge pages and the shared file system."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import field

from nodeagent import hookimpl
from nodeagent.base.hugepages import HOST_HUGE_PAGES, read_huge_pages
from nodeagent.base.quantity import Format, Quantity
from nodeagent.base.structs import Struct
from nodeagent.contracts.context import ConfigContext
from nodeagent.contracts.node import NodeReport

if TYPE_CHECKING:
    from nodeagent.contracts.hooks import PluginHost

_KIBI = 1024


class MachineSize(Struct, frozen=True):
    """Sizes in bytes; unknown values are 0 or absent."""

    cores: int
    memory: int
    storage: int
    hugepages: dict[int, int] = field(default_factory=dict)
    """Preallocated bytes by page size."""


@hookimpl
def nodeagent_configure(context: ConfigContext, plugins: PluginHost) -> None:
    isolation = context.config.local_storage_capacity_isolation
    plugins.register(NodeCapacity(context.root_dir if isolation else None), name="node_stats.capacity")


class NodeCapacity:
    """Reports the size of the host as the node's capacity.

    :param shared: a path on the shared file system; ``None`` disables ephemeral storage
        (spec: config.localStorageCapacityIsolation).
    """

    def __init__(self, shared: Path | None, *, root: Path = Path("/")) -> None:
        self._shared, self._root = shared, root

    @hookimpl
    async def nodeagent_report_node(self) -> NodeReport:
        return NodeReport(capacity=capacity_of(await asyncio.to_thread(measure, self._shared, self._root)))


def capacity_of(size: MachineSize) -> dict[str, str]:
    """Return *size* as resource quantities without unknown ones."""
    capacity = {"cpu": str(size.cores)}
    if size.memory:
        capacity["memory"] = _binary(size.memory)
    if size.storage:
        capacity["ephemeral-storage"] = _binary(size.storage)
    for page, amount in sorted(size.hugepages.items()):
        capacity[f"hugepages-{_binary(page)}"] = _binary(amount)
    return capacity


def measure(shared: Path | None, root: Path = Path("/")) -> MachineSize:
    """Read the size of the host from disk."""
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


def _storage(path: Path) -> int:
    """Return the size of the file system of *path*, or of its nearest existing parent."""
    for directory in (path, *path.parents):
        try:
            status = os.statvfs(directory)
        except OSError:
            continue
        return status.f_blocks * status.f_frsize
    return 0


def _binary(amount: int) -> str:
    return str(Quantity(amount, format=Format.BINARY))

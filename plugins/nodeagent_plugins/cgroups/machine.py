"""Host resources that limits depend on."""

from __future__ import annotations

import os
from pathlib import Path

from msgspec import field

from nodeagent.base.hugepages import HOST_HUGE_PAGES, read_huge_pages
from nodeagent.base.quantity import Quantity
from nodeagent.base.structs import Struct
from nodeagent.model.resources import CPU, MEMORY, Amounts

PIDS = "pid"


class Machine(Struct, frozen=True):
    """Sizes in bytes; an unavailable value is 0.

    :ivar pids: maximum number of processes.
    :ivar hugepages: preallocated bytes by page size in bytes.
    """

    cores: int = 1
    memory: int = 0
    swap: int = 0
    pids: int = 0
    hugepages: dict[int, int] = field(default_factory=dict)

    @property
    def capacity(self) -> Amounts:
        """Resources that cgroups limit; huge pages are listed by size only."""
        amounts = {CPU: Quantity(self.cores)}
        if self.memory:
            amounts[MEMORY] = Quantity(self.memory)
        if self.pids:
            amounts[PIDS] = Quantity(self.pids)
        return amounts


def read_machine(root: Path = Path("/")) -> Machine:
    """Read the resources of the host from files below *root*."""
    memory = {
        line.partition(":")[0]: int(line.split()[1]) * 1024
        for line in _text(root / "proc/meminfo").splitlines()
        if line.startswith(("MemTotal:", "SwapTotal:"))
    }
    most = [_number(root / "proc/sys/kernel" / name) for name in ("pid_max", "threads-max")]
    return Machine(
        cores=os.cpu_count() or 1,
        memory=memory.get("MemTotal", 0),
        swap=memory.get("SwapTotal", 0),
        pids=min((amount for amount in most if amount), default=0),
        hugepages=read_huge_pages(root / HOST_HUGE_PAGES),
    )


def _number(path: Path) -> int:
    text = _text(path).strip()
    return int(text) if text.isdecimal() else 0


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="ascii", errors="replace")
    except OSError:
        return ""

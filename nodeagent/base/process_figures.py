"""Resources that this process uses."""

from __future__ import annotations

import sys
from typing import NamedTuple

from nodeagent.base.malloc import heap_used_bytes


class ProcessFigure(NamedTuple):
    """One figure.

    :ivar name: name of the metric.
    :ivar kind: ``counter`` or ``gauge``.
    :ivar description: help text, upstream's if it has the metric.
    :ivar value: in the unit that *name* ends with.
    """

    name: str
    kind: str
    description: str
    value: float


def process_figures() -> list[ProcessFigure]:
    """Return the figures of this process. Blocking."""
    import psutil  # loaded for the first scrape only

    process = psutil.Process()
    with process.oneshot():
        cpu, memory, started = process.cpu_times(), process.memory_info(), process.create_time()
    descriptors, limit = process.num_fds(), process.rlimit(psutil.RLIMIT_NOFILE)[0]
    blocks, heap = sys.getallocatedblocks(), heap_used_bytes()
    return [
        ProcessFigure(f"process_{name}", kind, description, value)
        for name, kind, description, value in (
            ("allocated_blocks", "gauge", "Number of small memory blocks that Python has allocated.", blocks),
            ("cpu_seconds_total", "counter", "Total user and system CPU time spent in seconds.", cpu.user + cpu.system),
            ("heap_allocated_bytes", "gauge", "Bytes that the C library has allocated, without small blocks.", heap),
            ("max_fds", "gauge", "Maximum number of open file descriptors.", limit),
            ("open_fds", "gauge", "Number of open file descriptors.", descriptors),
            ("resident_memory_bytes", "gauge", "Resident memory size in bytes.", memory.rss),
            ("start_time_seconds", "gauge", "Start time of the process since unix epoch in seconds.", started),
            ("virtual_memory_bytes", "gauge", "Virtual memory size in bytes.", memory.vms),
        )
        if value is not None
    ]

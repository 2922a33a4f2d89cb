"""Resources that a server uses between requests."""

from __future__ import annotations

import collections
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from tests.api_fuzz.session import Session
from tests.integration.programs import rss_mib

_MEMORY = re.compile(rb"^process_(allocated_blocks|heap_allocated_bytes) (\S+)$", re.MULTILINE)
_TASKS = "/debug/pprof/goroutine?debug=1"


@dataclass(frozen=True)
class Usage:
    """Memory, open files, threads and tasks of a server.

    :ivar blocks: small memory blocks that Python has allocated, 0 if they were not counted.
    :ivar heap_mib: memory that the C library has allocated, 0 if it was not measured.
    """

    rss_mib: float
    descriptors: int
    threads: int
    tasks: Mapping[str, int]
    """Number of tasks of the event loop by their innermost function."""
    blocks: int = 0
    heap_mib: float = 0.0

    def text(self) -> str:
        counts = f"{self.descriptors} descriptors, {self.threads} threads, {sum(self.tasks.values())} tasks"
        allocated = f"{self.blocks} blocks, heap {self.heap_mib:.1f} MiB, " if self.blocks else ""
        return f"{self.rss_mib:.1f} MiB, {allocated}{counts}"


def measure(pid: int, session: Session, *, completely: bool) -> Usage:
    """Return the usage of the server *pid*.

    :param completely: whether allocated memory is read from the metrics, which are a large page after many requests.
    """
    process = Path(f"/proc/{pid}")
    descriptors, threads = (len(list((process / name).iterdir())) for name in ("fd", "task"))
    usage = Usage(rss_mib(pid), descriptors, threads, _tasks(session))
    if not completely:
        return usage
    metrics = dict(_MEMORY.findall(session.body("GET", "/metrics")))
    blocks, heap = (float(metrics[name]) for name in (b"allocated_blocks", b"heap_allocated_bytes"))
    return replace(usage, blocks=int(blocks), heap_mib=heap / (1 << 20))


def _tasks(session: Session) -> collections.Counter[str]:
    """Return the number of tasks by function, without the one that responds."""
    stacks = session.body("GET", _TASKS).decode().split("\n\n")[1:]
    return collections.Counter(stack.strip().rpartition("\n")[2].strip() for stack in stacks)

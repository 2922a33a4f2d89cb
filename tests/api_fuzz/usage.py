"""Resources that a server uses between requests."""

from __future__ import annotations

import collections
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tests.api_fuzz.session import Session
from tests.integration.programs import rss_mib

_TASKS = "/debug/pprof/goroutine?debug=1"


@dataclass(frozen=True)
class Usage:
    """Memory, open files, threads and tasks of a server."""

    rss_mib: float
    descriptors: int
    threads: int
    tasks: Mapping[str, int]
    """Number of tasks of the event loop by their innermost function."""

    def text(self) -> str:
        counts = f"{self.descriptors} descriptors, {self.threads} threads, {sum(self.tasks.values())} tasks"
        return f"{self.rss_mib:.1f} MiB, {counts}"


def measure(pid: int, session: Session) -> Usage:
    """Return the usage of the server *pid*."""
    process = Path(f"/proc/{pid}")
    descriptors, threads = (len(list((process / name).iterdir())) for name in ("fd", "task"))
    return Usage(rss_mib(pid), descriptors, threads, _tasks(session))


def _tasks(session: Session) -> collections.Counter[str]:
    """Return the number of tasks by function, without the one that responds."""
    stacks = session.body("GET", _TASKS).decode().split("\n\n")[1:]
    return collections.Counter(stack.strip().rpartition("\n")[2].strip() for stack in stacks)

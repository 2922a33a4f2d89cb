"""Size limit for the logs of terminated pods."""

from __future__ import annotations

import asyncio
import logging
import os
import stat
from collections.abc import Iterable, Sequence
from pathlib import Path

from nodeagent.base.structs import Struct
from nodeagent.contracts.context import AgentContext

_log = logging.getLogger(__name__)

PERIOD_SECONDS = 60.0
_ENDED = ("Succeeded", "Failed")


class LogFile(Struct, frozen=True):
    """A log file of a terminated pod."""

    path: Path
    bytes: int
    ended_at: int
    """Exit of the pod's last container, in nanoseconds since the epoch."""
    rotated: str
    """Suffix after the name of the current log; empty for the current log."""


class TerminatedPodLogs:
    """Removes the oldest logs of retained terminated pods while their total size exceeds *budget*."""

    name = "log_rotation.dead_logs"

    def __init__(self, context: AgentContext, budget: int) -> None:
        self._context, self._budget = context, budget

    async def run(self) -> None:
        """Run until cancelled."""
        while True:
            ended = list(self._ended())
            if ended:
                gone = await asyncio.to_thread(trim, ended, self._budget)
                if gone:
                    freed = sum(file.bytes for file in gone)
                    _log.info("Removed logs of terminated pods", extra={"files": len(gone), "bytes": freed})
            await self._context.clock.sleep(PERIOD_SECONDS)

    def _ended(self) -> Iterable[tuple[Path, int]]:
        """Yield the logs of terminated pods, each with the exit of its pod's last container."""
        pods = self._context.pods
        active = {pod.uid for pod in pods.active()}
        for pod in pods.all():
            status, observed = pods.status(pod.uid), pods.observed(pod.uid)
            if pod.uid in active or status is None or status.phase not in _ENDED or observed is None or observed.alive:
                continue
            at = max((run.finished_at for run in observed.containers), default=0)
            yield from ((Path(run.log_path), at) for run in observed.containers if run.log_path)


def trim(logs: Sequence[tuple[Path, int]], budget: int) -> list[LogFile]:
    """Remove excess logs, including rotated ones; return the removed files. Blocks."""
    found = [file for log, ended_at in logs for file in _files(log, ended_at)]
    gone = []
    for file in choose(found, budget):
        try:
            file.path.unlink(missing_ok=True)
        except OSError as error:
            _log.warning("Failed to remove log of terminated pod", extra={"path": str(file.path), "err": str(error)})
        else:
            gone.append(file)
    return gone


def choose(files: Sequence[LogFile], budget: int) -> list[LogFile]:
    """Return the files to remove: of the pod that terminated first, rotated files first, oldest first. No I/O."""
    total, gone = sum(file.bytes for file in files), []
    order = sorted(files, key=lambda file: (file.ended_at, not file.rotated, file.rotated, file.path))
    for file in order:
        if total <= budget:
            break
        if file.bytes:
            gone.append(file)
            total -= file.bytes
    return gone


def _files(log: Path, ended_at: int) -> list[LogFile]:
    try:
        with os.scandir(log.parent) as entries:
            names = [entry.name for entry in entries if entry.name == log.name or entry.name.startswith(f"{log.name}.")]
    except OSError:
        return []  # Removed with its pod.
    found = []
    for name in names:
        try:
            status = (log.parent / name).lstat()
        except OSError:
            continue
        if stat.S_ISREG(status.st_mode):
            found.append(LogFile(log.parent / name, status.st_size, ended_at, name[len(log.name) :]))
    return found

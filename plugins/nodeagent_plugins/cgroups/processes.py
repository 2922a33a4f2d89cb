"""Processes in cgroups: list, move, kill. Blocking; called in threads."""

from __future__ import annotations

import contextlib
import errno
import os
import signal
from collections.abc import Sequence
from pathlib import Path

_PROCS = "cgroup.procs"
_MOVE_ROUNDS = 10
_UNMOVABLE = (errno.ESRCH, errno.EINVAL)
"""The process has exited, or the kernel does not allow it to move."""


def processes_in(path: Path) -> list[int]:
    """Return the processes of a cgroup without its descendants; empty if it does not exist."""
    try:
        text = (path / _PROCS).read_text()
    except OSError:
        return []
    return [int(line) for line in text.split() if line != "0"]  # 0 is a process of another PID namespace.


def processes_below(path: Path) -> dict[int, None]:
    """Return the processes of a cgroup and its descendants, deepest first, without the agent itself."""
    found: dict[int, None] = {}
    for child in directories(path):
        found |= processes_below(child)
    found |= dict.fromkeys(processes_in(path))
    found.pop(os.getpid(), None)
    return found


def kill_all(paths: Sequence[Path]) -> bool:
    """Send SIGKILL to every process in *paths* and below, children first; return whether there was any."""
    pids: dict[int, None] = {}
    for path in paths:
        pids |= processes_below(path)
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    return bool(pids)


def move(pid: int, path: Path) -> None:
    """Move a process into a cgroup; a process that is already in it, has exited or cannot be moved is skipped.

    :raises OSError: the kernel rejects the operation.
    """
    if pid in processes_in(path):
        return
    try:
        (path / _PROCS).write_text(str(pid))
    except OSError as error:
        if error.errno not in _UNMOVABLE:
            raise


def move_all(source: Path, target: Path, proc: Path) -> None:
    """Move the processes of *source* into *target*, except PID 1 and kernel threads.

    :raises OSError: the kernel rejects the operation.
    """
    tried: set[int] = set()
    for _ in range(_MOVE_ROUNDS):  # Processes can fork while they are moved.
        pids = [pid for pid in processes_in(source) if pid != 1 and pid not in tried and not _of_kernel(proc, pid)]
        if not pids:
            return
        for pid in pids:
            move(pid, target)
        tried.update(pids)


def directories(path: Path) -> list[Path]:
    """Return the child cgroups."""
    try:
        with os.scandir(path) as entries:
            return [path / entry.name for entry in entries if entry.is_dir(follow_symlinks=False)]
    except FileNotFoundError:
        return []


def _of_kernel(proc: Path, pid: int) -> bool:
    """Return whether the process is a kernel thread, which has no executable."""
    try:
        (proc / str(pid) / "exe").readlink()
    except FileNotFoundError:
        return True
    except OSError:
        return False
    return False

"""Processes in cgroups: found, moved, killed. Blocking; called from threads."""

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
"""The process has ended, or the kernel keeps it where it is."""


def processes_in(place: Path) -> list[int]:
    """Return the processes of a cgroup, those below left out; none when it does not exist."""
    try:
        text = (place / _PROCS).read_text()
    except OSError:
        return []
    return [int(line) for line in text.split() if line != "0"]  # 0: a process of another PID namespace


def processes_below(place: Path) -> dict[int, None]:
    """Return the processes of a cgroup and of those below, the lowest first, without this one."""
    found: dict[int, None] = {}
    for child in directories(place):
        found |= processes_below(child)
    found |= dict.fromkeys(processes_in(place))
    found.pop(os.getpid(), None)
    return found


def kill_all(places: Sequence[Path]) -> bool:
    """Send SIGKILL to every process in *places* and below, children first; return whether there was one."""
    pids: dict[int, None] = {}
    for place in places:
        pids |= processes_below(place)
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    return bool(pids)


def move(pid: int, place: Path) -> None:
    """Move a process into a cgroup; one that is there already, has ended or cannot be moved is left alone.

    :raises OSError: the kernel refuses.
    """
    if pid in processes_in(place):
        return
    try:
        (place / _PROCS).write_text(str(pid))
    except OSError as error:
        if error.errno not in _UNMOVABLE:
            raise


def move_all(source: Path, target: Path, proc: Path) -> None:
    """Move the processes of *source*, but for the first one and kernel threads, into *target*.

    :raises OSError: the kernel refuses.
    """
    tried: set[int] = set()
    for _ in range(_MOVE_ROUNDS):  # they start new ones meanwhile
        pids = [pid for pid in processes_in(source) if pid != 1 and pid not in tried and not _of_kernel(proc, pid)]
        if not pids:
            return
        for pid in pids:
            move(pid, target)
        tried.update(pids)


def directories(place: Path) -> list[Path]:
    """Return the cgroups directly below."""
    try:
        with os.scandir(place) as entries:
            return [place / entry.name for entry in entries if entry.is_dir(follow_symlinks=False)]
    except FileNotFoundError:
        return []


def _of_kernel(proc: Path, pid: int) -> bool:
    """Threads of the kernel have no program file."""
    try:
        (proc / str(pid) / "exe").readlink()
    except FileNotFoundError:
        return True
    except OSError:
        return False
    return False

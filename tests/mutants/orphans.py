"""Processes that integration tests leave behind when a mutant or its limit ends them, such as runtimes."""

from __future__ import annotations

import ctypes

import psutil

_PR_SET_CHILD_SUBREAPER = 36
_WAIT_SECONDS = 10.0


def adopt_orphans() -> None:
    """Become the parent of all descendants whose parents exit.

    :raises OSError: the kernel rejects it.
    """
    if ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0):
        raise OSError(ctypes.get_errno(), "cannot become the parent of orphans")


def kill_orphans() -> None:
    """Kill all descendants and wait until they have exited."""
    orphans = psutil.Process().children(recursive=True)
    for process in orphans:
        process.kill()
    psutil.wait_procs(orphans, timeout=_WAIT_SECONDS)

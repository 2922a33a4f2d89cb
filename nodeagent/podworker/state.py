"""Lifecycle phases of a pod worker; transitions only move forward.

::

    SYNC ──▶ TERMINATING ──▶ TERMINATED ──▶ REMOVED
      │        requested, or finished          no longer desired
      └─ containers start and restart

The reason for TERMINATING does not change; a later request can only shorten the grace period.
"""

from __future__ import annotations

from dataclasses import replace
from enum import IntEnum

from nodeagent.base.structs import Struct
from nodeagent.contracts.pods import KillReason
from nodeagent.model.pod import Pod

BLOCKED_PREFIX = "pod cannot be run: "
"""Start of the error of a pod that a plugin blocks."""


class Phase(IntEnum):
    """Phase of a pod worker."""

    SYNC = 0
    TERMINATING = 1
    TERMINATED = 2
    REMOVED = 3


class Termination(Struct, frozen=True):
    """Reason and grace period of a termination.

    :ivar status_reason: reason of the pod status, with phase Failed; empty if the phase is derived from exit codes.
    :ivar grace_seconds: overrides the pod's termination grace period; ``None`` does not.
    """

    reason: KillReason
    message: str = ""
    status_reason: str = ""
    grace_seconds: int | None = None

    def merge(self, other: Termination, pod: Pod) -> Termination:
        """Return this termination of *pod* with the shorter grace period of both; its reason is kept."""
        shorter = effective_grace(pod, other) < effective_grace(pod, self)
        return replace(self, grace_seconds=effective_grace(pod, other)) if shorter else self


class WorkerSnapshot(Struct, frozen=True, kw_only=True):
    """Current state of a worker, for diagnostics.

    :ivar working_since: monotonic start time of the sync in progress; ``None`` while the worker is idle.
    :ivar due_at: monotonic time of the next sync, if known.
    :ivar error: error of the last sync, with its ``reason``; empty if it succeeded.
    """

    phase: Phase
    termination: Termination | None = None
    working_since: float | None = None
    due_at: float | None = None
    error: str = ""
    reason: str = ""
    network_problem: str = ""
    queued: bool = False
    """True if the pod waits until another pod of its name has terminated."""


def requested_termination(pod: Pod) -> Termination | None:
    """Return the termination that the API requests for *pod*, or ``None``."""
    if pod.metadata.deletion_timestamp is None:
        return None
    return Termination(KillReason.DELETED, grace_seconds=pod.metadata.deletion_grace_period_seconds)


def effective_grace(pod: Pod, termination: Termination) -> int:
    """Return the grace period of *pod* in seconds: that of *termination*, else the pod's own; at least 1."""
    if termination.grace_seconds is not None:
        return max(1, termination.grace_seconds)
    own = pod.spec.termination_grace_period_seconds
    return max(1, 30 if own is None else own)

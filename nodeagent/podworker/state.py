"""The life of a pod on this node, as a table of transitions that only go forward::

    SYNC ──▶ TERMINATING ──▶ TERMINATED ──▶ REMOVED
      │        end asked for, or finished      nobody wants it any more
      └─ containers start and restart

Entering TERMINATING keeps its reason; a later request can only shorten the grace.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import IntEnum

from nodeagent.contracts.pods import KillReason
from nodeagent.model.pod import Pod


class Phase(IntEnum):
    """How far a pod has come."""

    SYNC = 0
    TERMINATING = 1
    TERMINATED = 2
    REMOVED = 3


@dataclass(frozen=True, slots=True)
class Termination:
    """Why a pod ends, and how much time it has.

    :ivar status_reason: the reason its status gets, with phase Failed; empty when the phase follows from exit codes.
    :ivar grace_seconds: replaces the pod's own grace; ``None`` leaves it.
    """

    reason: KillReason
    message: str = ""
    status_reason: str = ""
    grace_seconds: int | None = None

    def merge(self, other: Termination, pod: Pod) -> Termination:
        """Return this termination of *pod* with the shorter grace of both; the first reason stays."""
        shorter = effective_grace(pod, other) < effective_grace(pod, self)
        return replace(self, grace_seconds=effective_grace(pod, other)) if shorter else self


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerPicture:
    """What a worker does at this moment, for whoever asks why a pod is where it is.

    :ivar working_since: monotonic time at which the step under way began; ``None`` while the worker rests.
    :ivar due_at: monotonic time of the next step, if it is known.
    :ivar error: why the last step has to be repeated, with its ``reason``; empty when it went well.
    """

    phase: Phase
    termination: Termination | None = None
    working_since: float | None = None
    due_at: float | None = None
    error: str = ""
    reason: str = ""
    network_problem: str = ""
    queued: bool = False
    """It waits until a static pod of its name has ended."""


def asked_to_end(pod: Pod) -> Termination | None:
    """Return why the API wants *pod* to end, or ``None``."""
    if pod.metadata.deletion_timestamp is None:
        return None
    return Termination(KillReason.DELETED, grace_seconds=pod.metadata.deletion_grace_period_seconds)


def effective_grace(pod: Pod, termination: Termination) -> int:
    """Return the seconds that containers of *pod* get to end: the given ones, else the pod's, at least 1."""
    if termination.grace_seconds is not None:
        return max(1, termination.grace_seconds)
    own = pod.spec.termination_grace_period_seconds
    return max(1, 30 if own is None else own)

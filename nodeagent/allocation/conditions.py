"""Conditions that report a pod's resize: pending, or in progress. No I/O."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime

import msgspec

from nodeagent.allocation.decision import DEFERRED, INFEASIBLE
from nodeagent.base.structs import Struct
from nodeagent.model.pod import Pod, PodCondition
from nodeagent.model.resizing import ResizeCondition

ERROR = "Error"


class PodResize(Struct, frozen=True):
    """Conditions of one pod."""

    pending: PodCondition | None = None
    in_progress: PodCondition | None = None


class ResizeConditions:
    """Resize conditions of all pods.

    :param now: returns the time.
    """

    def __init__(self, now: Callable[[], datetime]) -> None:
        self._now = now
        self._pods: dict[str, PodResize] = {}

    def of(self, uid: str) -> PodResize:
        """Return the conditions of a pod."""
        return self._pods.get(uid, PodResize())

    def listed(self, uid: str) -> Sequence[PodCondition]:
        """Return the conditions of a pod that are set."""
        found = self.of(uid)
        return [condition for condition in (found.pending, found.in_progress) if condition is not None]

    def all(self) -> Sequence[PodResize]:
        """Return the conditions of all pods."""
        return list(self._pods.values())

    def restore(self, pod: Pod) -> None:
        """Read the conditions that were reported before a restart of the agent."""
        found = {condition.type: condition for condition in pod.status.conditions or ()}
        self._store(pod.uid, PodResize(found.get(ResizeCondition.PENDING), found.get(ResizeCondition.IN_PROGRESS)))

    def set_pending(self, uid: str, reason: str, message: str, generation: int) -> bool:
        """Report a pending resize; return whether its reason or generation is new.

        :param reason: ``Infeasible``; any other reason is reported as ``Deferred``.
        """
        before = self.of(uid)
        condition = self._condition(
            ResizeCondition.PENDING, reason if reason == INFEASIBLE else DEFERRED, message, generation, before.pending
        )
        self._store(uid, replace(before, pending=condition))
        old = before.pending
        return old is None or (old.reason, old.observed_generation) != (condition.reason, generation)

    def clear_pending(self, uid: str) -> None:
        self._store(uid, replace(self.of(uid), pending=None))

    def set_in_progress(self, uid: str, generation: int, message: str = "") -> bool:
        """Report a resize in progress; return whether the report changed.

        An existing condition keeps its generation, and its error until the resize is complete.

        :param generation: generation of the pod when the resize was granted.
        :param message: the error that the resize met; empty for none.
        """
        before = self.of(uid)
        old = before.in_progress
        if old is not None:
            generation = old.observed_generation
            message = message or old.message
        condition = self._condition(ResizeCondition.IN_PROGRESS, ERROR if message else "", message, generation, old)
        self._store(uid, replace(before, in_progress=condition))
        return condition != old

    def clear_in_progress(self, uid: str) -> PodCondition | None:
        """Remove the condition of a completed resize, and return it."""
        before = self.of(uid)
        self._store(uid, replace(before, in_progress=None))
        return before.in_progress

    def forget(self, uid: str) -> None:
        self._pods.pop(uid, None)

    def _store(self, uid: str, conditions: PodResize) -> None:
        if conditions == PodResize():
            self._pods.pop(uid, None)
        else:
            self._pods[uid] = conditions

    def _condition(
        self, kind: ResizeCondition, reason: str, message: str, generation: int, before: PodCondition | None
    ) -> PodCondition:
        time = before.last_transition_time if before is not None else self._now().replace(microsecond=0)
        condition = PodCondition(
            type=kind.value, status="True", reason=reason, message=message, observed_generation=generation
        )
        return msgspec.structs.replace(condition, last_transition_time=time)

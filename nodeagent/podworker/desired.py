"""The wanted pods of all sources, and what changes when a source publishes a new set. Pure: no I/O, no tasks."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from nodeagent.base import identity
from nodeagent.model.pod import Pod


class ChangeKind(StrEnum):
    ADDED = "added"
    UPDATED = "updated"
    """The pod is wanted differently, or asked to end."""
    STATUS = "status"
    """Only what the API server shows of it changed."""
    REMOVED = "removed"
    LEFT_OUT = "left out"
    """Another pod of the same set has its name."""


@dataclass(frozen=True, slots=True)
class Change:
    kind: ChangeKind
    pod: Pod
    source: str


class DesiredPods:
    """Keeps the last set of each source and compares the next one with it.

    Mirror pods are kept apart: they show static pods in the API and are never run.
    """

    def __init__(self, sources: Iterable[str]) -> None:
        self._sets: dict[str, dict[str, Pod]] = {}
        self._waiting = set(sources)
        self._left_out: dict[str, set[str]] = {}

    def expect(self, sources: Iterable[str]) -> None:
        """Name further sources whose pods are not known before they publish."""
        self._waiting.update(set(sources) - self._sets.keys())

    @property
    def complete(self) -> bool:
        """Whether every source has published; before that, nothing may be cleaned up."""
        return not self._waiting

    @property
    def unheard(self) -> list[str]:
        """The sources that have not published."""
        return sorted(self._waiting)

    def publish(self, source: str, pods: Sequence[Pod]) -> list[Change]:
        """Take the new set of *source* and return what changed: removals, then additions, then updates.

        A second pod with one namespace and name in a set is left out, which is told once.
        """
        before = self._sets.get(source, {})
        after, twins = _unique(pods)
        told, self._left_out[source] = self._left_out.get(source, ()), {twin.uid for twin in twins}
        self._sets[source] = after
        self._waiting.discard(source)
        changes = [Change(ChangeKind.REMOVED, pod, source) for uid, pod in before.items() if uid not in after]
        added, updated = [], []
        for uid, pod in after.items():
            old = before.get(uid)
            if old is None:
                added.append(Change(ChangeKind.ADDED, pod, source))
            elif old is not pod and old != pod:
                updated.append(
                    Change(ChangeKind.UPDATED if _wanted_differs(old, pod) else ChangeKind.STATUS, pod, source)
                )
        added.sort(key=lambda change: str(change.pod.metadata.creation_timestamp or ""))
        left_out = [Change(ChangeKind.LEFT_OUT, twin, source) for twin in twins if twin.uid not in told]
        return [*changes, *added, *updated, *left_out]

    def pods(self) -> list[Pod]:
        """Return every wanted pod, mirror pods left out."""
        return [pod for pods in self._sets.values() for pod in pods.values() if not is_mirror(pod)]

    def wants(self, uid: str) -> bool:
        """Whether any source wants the pod."""
        return any(uid in pods for pods in self._sets.values())


def _unique(pods: Iterable[Pod]) -> tuple[dict[str, Pod], list[Pod]]:
    """Return the pods by UID, and those whose name another one has."""
    unique: dict[str, Pod] = {}
    twins, names = [], set[str]()
    for pod in pods:
        if pod.full_name in names:
            twins.append(pod)
        else:
            names.add(pod.full_name)
            unique[pod.uid] = pod
    return unique, twins


def is_mirror(pod: Pod) -> bool:
    """Whether *pod* is the API's picture of a static pod."""
    return identity.current().label("config.mirror") in (pod.metadata.annotations or {})


def is_static(pod: Pod) -> bool:
    """Whether *pod* comes from a file or URL and not from the API."""
    source = (pod.metadata.annotations or {}).get(identity.current().label("config.source"), "api")
    return source != "api" and not is_mirror(pod)


def _wanted_differs(old: Pod, new: Pod) -> bool:
    """Whether anything but the reported status and bookkeeping changed."""
    a, b = old.metadata, new.metadata
    return (
        old.spec != new.spec
        or a.labels != b.labels
        or a.annotations != b.annotations
        or a.deletion_timestamp != b.deletion_timestamp
        or a.deletion_grace_period_seconds != b.deletion_grace_period_seconds
    )

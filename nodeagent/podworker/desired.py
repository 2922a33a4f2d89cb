"""Desired pods of all sources, and the changes when a source publishes a new set. No I/O, no tasks."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import StrEnum
from pathlib import PurePosixPath

from nodeagent.base import identity
from nodeagent.base.structs import Struct
from nodeagent.model.pod import Pod

_PLUGIN_DIRECTORIES = {"device-plugins", "plugins_registry"}
"""Directories in which node plugins register."""


class ChangeKind(StrEnum):
    ADDED = "added"
    UPDATED = "updated"
    """The desired state changed, or termination was requested."""
    STATUS = "status"
    """Only the status or metadata that the API server reports changed."""
    REMOVED = "removed"
    DUPLICATE = "duplicate"
    """Another pod of the same set has the same name."""


class Change(Struct, frozen=True):
    kind: ChangeKind
    pod: Pod
    source: str
    before: Pod | None = None
    """The pod before an update."""


class DesiredPods:
    """Stores the last set of each source and compares the next one with it.

    Mirror pods represent static pods in the API and are never run.
    """

    def __init__(self, sources: Iterable[str]) -> None:
        self._sets: dict[str, dict[str, Pod]] = {}
        self._waiting = set(sources)
        self._duplicates: dict[str, set[str]] = {}

    def expect(self, sources: Iterable[str]) -> None:
        """Add sources that are pending until they publish."""
        self._waiting.update(set(sources) - self._sets.keys())

    @property
    def complete(self) -> bool:
        """True if every source has published; no pod may be cleaned up before."""
        return not self._waiting

    @property
    def pending(self) -> list[str]:
        """The sources that have not published yet."""
        return sorted(self._waiting)

    def publish(self, source: str, pods: Sequence[Pod]) -> list[Change]:
        """Store the new set of *source* and return its changes: removals, then additions, then updates.

        Among the additions, pods of node plugins are first, because other pods wait for their devices and volumes.

        A second pod with the same namespace and name in a set is ignored and reported once.
        """
        before = self._sets.get(source, {})
        after, duplicates = _unique(pods)
        reported, self._duplicates[source] = (
            self._duplicates.get(source, ()),
            {duplicate.uid for duplicate in duplicates},
        )
        self._sets[source] = after
        self._waiting.discard(source)
        changes = [Change(ChangeKind.REMOVED, pod, source) for uid, pod in before.items() if uid not in after]
        added, updated = [], []
        for uid, pod in after.items():
            old = before.get(uid)
            if old is None:
                added.append(Change(ChangeKind.ADDED, pod, source))
            elif old is not pod and old != pod:
                kind = ChangeKind.UPDATED if _desired_state_differs(old, pod) else ChangeKind.STATUS
                updated.append(Change(kind, pod, source, before=old))
        added.sort(
            key=lambda change: (not _is_node_plugin(change.pod), str(change.pod.metadata.creation_timestamp or ""))
        )
        ignored = [
            Change(ChangeKind.DUPLICATE, duplicate, source) for duplicate in duplicates if duplicate.uid not in reported
        ]
        return [*changes, *added, *updated, *ignored]

    def pods(self) -> list[Pod]:
        """Return all desired pods without mirror pods."""
        return [pod for pods in self._sets.values() for pod in pods.values() if not is_mirror(pod)]

    def get(self, uid: str) -> Pod | None:
        """Return the pod of that UID as its source desires it."""
        return next((pods[uid] for pods in self._sets.values() if uid in pods), None)

    def contains(self, uid: str) -> bool:
        """Return whether any source desires the pod."""
        return any(uid in pods for pods in self._sets.values())


def _unique(pods: Iterable[Pod]) -> tuple[dict[str, Pod], list[Pod]]:
    """Return the pods by UID, and the pods with a duplicate name."""
    unique: dict[str, Pod] = {}
    duplicates, names = [], set[str]()
    for pod in pods:
        if pod.full_name in names:
            duplicates.append(pod)
        else:
            names.add(pod.full_name)
            unique[pod.uid] = pod
    return unique, duplicates


def is_mirror(pod: Pod) -> bool:
    """Return whether *pod* is the mirror pod of a static pod."""
    return identity.current().label("config.mirror") in (pod.metadata.annotations or {})


def is_static(pod: Pod) -> bool:
    """Return whether *pod* comes from a file or URL instead of the API."""
    source = (pod.metadata.annotations or {}).get(identity.current().label("config.source"), "api")
    return source != "api" and not is_mirror(pod)


def _is_node_plugin(pod: Pod) -> bool:
    """Return whether *pod* serves a device plugin or driver: a DaemonSet's or static pod with the agent's sockets."""
    if not is_static(pod) and not any(owner.kind == "DaemonSet" for owner in pod.metadata.owner_references or ()):
        return False
    paths = [PurePosixPath(volume.host_path.path) for volume in pod.spec.volumes or () if volume.host_path is not None]
    return any(not _PLUGIN_DIRECTORIES.isdisjoint(path.parts) for path in paths)


def _desired_state_differs(old: Pod, new: Pod) -> bool:
    """Return whether fields other than the status and server-side metadata changed."""
    a, b = old.metadata, new.metadata
    return (
        old.spec != new.spec
        or a.generation != b.generation  # Also if the agent does not recognize the changed field.
        or a.labels != b.labels
        or a.annotations != b.annotations
        or a.deletion_timestamp != b.deletion_timestamp
        or a.deletion_grace_period_seconds != b.deletion_grace_period_seconds
    )

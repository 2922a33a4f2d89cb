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
        self._sets: dict[str, _PodSet] = {}
        self._waiting = set(sources)

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
        known = self._sets.setdefault(source, _PodSet())
        self._waiting.discard(source)
        removed, changed, ignored = known.replace(pods)
        changes = [Change(ChangeKind.REMOVED, pod, source) for pod in removed]
        added, updated = [], []
        for pod, old in changed:
            if old is None:
                added.append(Change(ChangeKind.ADDED, pod, source))
            elif old != pod:
                kind = ChangeKind.UPDATED if _desired_state_differs(old, pod) else ChangeKind.STATUS
                updated.append(Change(kind, pod, source, before=old))
        added.sort(
            key=lambda change: (not _is_node_plugin(change.pod), str(change.pod.metadata.creation_timestamp or ""))
        )
        return [*changes, *added, *updated, *(Change(ChangeKind.DUPLICATE, pod, source) for pod in ignored)]

    def pods(self) -> list[Pod]:
        """Return all desired pods without mirror pods."""
        return [pod for known in self._sets.values() for uid, pod in known.pods.items() if uid not in known.mirror_uids]

    def static_pods(self) -> list[Pod]:
        """Return the desired static pods."""
        return [known.pods[uid] for known in self._sets.values() for uid in known.static_uids]

    def get(self, uid: str) -> Pod | None:
        """Return the pod of that UID as its source desires it; it may be a mirror pod."""
        return next((known.pods[uid] for known in self._sets.values() if uid in known.pods), None)

    def contains(self, uid: str) -> bool:
        """Return whether any source desires the pod."""
        return any(uid in known.pods for known in self._sets.values())


class _PodSet:
    """The pods of one source. A change of one pod costs little for each of the others, which are not evaluated."""

    def __init__(self) -> None:
        self.pods: dict[str, Pod] = {}
        """By UID, in the order of publication, without those that have the name of another one."""
        self.mirror_uids: set[str] = set()
        self.static_uids: dict[str, None] = {}
        self._duplicates: set[str] = set()

    def replace(self, pods: Sequence[Pod]) -> tuple[list[Pod], list[tuple[Pod, Pod | None]], list[Pod]]:
        """Store *pods*; return removed pods, changed ones with the previous pod of their UID, and new duplicates."""
        before, known = self.pods, self._duplicates
        after, duplicates = {pod.metadata.uid: pod for pod in pods}, list[Pod]()
        if known or len(after) < len(pods) or not after.keys() <= before.keys():  # The name of a UID does not change.
            after, duplicates = _unique(pods)
        self.pods, self._duplicates = after, {pod.uid for pod in duplicates}
        removed = [] if before.keys() <= after.keys() else [pod for uid, pod in before.items() if uid not in after]
        for pod in removed:
            self.mirror_uids.discard(pod.uid)
            self.static_uids.pop(pod.uid, None)
        changed = [(pod, before.get(uid)) for uid, pod in after.items() if before.get(uid) is not pod]
        for pod, _ in changed:
            if is_mirror(pod):
                self.mirror_uids.add(pod.uid)
            elif is_static(pod):
                self.static_uids[pod.uid] = None
        return removed, changed, [pod for pod in duplicates if pod.uid not in known]


def _unique(pods: Iterable[Pod]) -> tuple[dict[str, Pod], list[Pod]]:
    """Return the pods by UID, and the pods with a duplicate name."""
    unique: dict[str, Pod] = {}
    duplicates, names = [], set[tuple[str, str]]()
    for pod in pods:
        meta = pod.metadata
        if (name := (meta.namespace, meta.name)) in names:
            duplicates.append(pod)
        else:
            names.add(name)
            unique[meta.uid] = pod
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

"""Diff of two runtime listings. No I/O."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from msgspec import field

from nodeagent.base.structs import MutableStruct
from nodeagent.contracts.runtime import LABEL_POD_UID, ContainerInfo, RuntimePod, SandboxInfo


class PodListing(MutableStruct):
    """The listed IDs of one pod."""

    sandbox_ids: list[str] = field(default_factory=list)
    container_ids: list[str] = field(default_factory=list)
    changed: set[str] = field(default_factory=set)
    removed: bool = False
    """True if a previously known sandbox or container is no longer listed."""


def changed_pods(
    known: Mapping[str, RuntimePod], sandboxes: Sequence[SandboxInfo], containers: Iterable[ContainerInfo]
) -> dict[str, PodListing]:
    """Return the pods with new, changed or removed sandboxes or containers, each with its listed IDs."""
    states: dict[str, object] = {}
    for pod in known.values():
        for known_sandbox in pod.sandboxes:
            states[known_sandbox.id] = known_sandbox.ready
        for known_container in pod.containers:
            states[known_container.id] = known_container.state
    listed: defaultdict[str, PodListing] = defaultdict(PodListing)
    changed: set[str] = set()
    for sandbox in sandboxes:
        listing = listed[sandbox.uid]
        listing.sandbox_ids.append(sandbox.id)
        if states.pop(sandbox.id, None) is not sandbox.ready:
            listing.changed.add(sandbox.id)
            changed.add(sandbox.uid)
    for container in containers:
        uid = container.labels.get(LABEL_POD_UID, "")
        listing = listed[uid]
        listing.container_ids.append(container.id)
        if states.pop(container.id, None) != container.state:
            listing.changed.add(container.id)
            changed.add(uid)
    for uid, pod in known.items() if states else ():
        if any(s.id in states for s in pod.sandboxes) or any(c.id in states for c in pod.containers):
            listed[uid].removed = True
            changed.add(uid)
    return {uid: listed[uid] for uid in changed if uid}

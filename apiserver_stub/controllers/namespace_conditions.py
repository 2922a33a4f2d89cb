"""Conditions in the status of terminating namespaces: why a namespace has not been removed yet. No I/O."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from apiserver_stub.apimachinery import objects
from apiserver_stub.apimachinery.objects import Object

_SUCCESSES = {
    "NamespaceDeletionDiscoveryFailure": ("ResourcesDiscovered", "All resources successfully discovered"),
    "NamespaceDeletionGroupVersionParsingFailure": (
        "ParsedGroupVersions",
        "All legacy kube types successfully parsed",
    ),
    "NamespaceDeletionContentFailure": (
        "ContentDeleted",
        "All content successfully deleted, may be waiting on finalization",
    ),
    "NamespaceContentRemaining": ("ContentRemoved", "All content successfully removed"),
    "NamespaceFinalizersRemaining": ("ContentRemoved", "All content successfully removed"),
}
"""Reason and message by type, in the order of the status."""


class RemainingContents:
    """Contents of a namespace that a deletion leaves.

    :ivar resources: number of objects by resource, such as ``pods.`` or ``jobs.batch``.
    :ivar finalizers: number of objects by finalizer.
    :ivar errors: messages of failed deletions, one per resource.
    """

    def __init__(self) -> None:
        self.resources: Counter[str] = Counter()
        self.finalizers: Counter[str] = Counter()
        self.errors: list[str] = []

    def conditions(self) -> list[Object]:
        """Return the conditions, without times."""
        found = {name: ("False", *success) for name, success in _SUCCESSES.items()}
        if self.errors:
            found["NamespaceDeletionContentFailure"] = (
                "True",
                "ContentDeletionFailed",
                f"Failed to delete all resource types, {len(self.errors)} remaining: {', '.join(sorted(self.errors))}",
            )
        if self.resources:
            texts = [f"{resource} has {count} resource instances" for resource, count in sorted(self.resources.items())]
            found["NamespaceContentRemaining"] = (
                "True",
                "SomeResourcesRemain",
                f"Some resources are remaining: {', '.join(texts)}",
            )
        if self.finalizers:
            texts = [f"{name} in {count} resource instances" for name, count in sorted(self.finalizers.items())]
            found["NamespaceFinalizersRemaining"] = (
                "True",
                "SomeFinalizerRemain",
                f"Some finalizers are remaining: {', '.join(texts)}",
            )
        return [
            {"type": name, "status": status, "reason": reason, "message": message}
            for name, (status, reason, message) in found.items()
        ]


def merged_conditions(current: Sequence[Object], new: Sequence[Object]) -> list[Object]:
    """Return *current* with the *new* conditions; the time of a transition changes with the status only."""
    found = {item.get("type"): item for item in current}
    for condition in new:
        old = found.get(condition["type"], {})
        since = old.get("lastTransitionTime") if old.get("status") == condition["status"] else None
        found[condition["type"]] = {
            "type": condition["type"],
            "status": condition["status"],
            "lastTransitionTime": since or objects.now(),
            "reason": condition["reason"],
            "message": condition["message"],
        }
    return list(found.values())

"""Values computed from pod specs, which are computed again only for specs that have changed. No I/O."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Generic, TypeVar

from nodeagent.model.pod import Pod, PodSpec

T = TypeVar("T")


class PodValues(Generic[T]):
    """Compares successive lists of pods, of which nearly all remain the same, for incremental totals.

    Pods are compared by the identity of their specs, so that a pod without changes costs a few nanoseconds.

    :param compute: computes the value of a pod, which depends on nothing but its spec.
    """

    def __init__(self, compute: Callable[[Pod], T]) -> None:
        self._compute = compute
        self._known: dict[int, tuple[PodSpec, T]] = {}

    def update(self, pods: Iterable[Pod]) -> tuple[list[T], list[T]]:
        """Return the values of the pods that were added and of those that were removed since the last call."""
        known, current = self._known, {id(pod.spec): pod for pod in pods}
        added = {key: (pod.spec, self._compute(pod)) for key, pod in current.items() if key not in known}
        removed = []
        if len(current) - len(added) < len(known):
            removed = [known.pop(key)[1] for key in [key for key in known if key not in current]]
        known |= added
        return [value for _, value in added.values()], removed

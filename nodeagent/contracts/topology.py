"""Contracts of NUMA alignment: topology hints and their providers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from nodeagent.base.structs import Struct
from nodeagent.model.pod import Container, Pod


class Hint(Struct, frozen=True):
    """NUMA nodes that satisfy a request, ``None`` for any; preferred if no smaller set does."""

    nodes: frozenset[int] | None = None
    preferred: bool = False


Hints = Mapping[str, Sequence[Hint]]
"""Hints by resource; without an entry there is no preference, and an empty list means that nothing fits."""


class HintProvider(Protocol):
    """Assigns a resource whose NUMA node matters; the topology manager merges the hints of all providers.

    All methods are called during admission, for one pod at a time, and must not block.
    """

    name: str

    def container_hints(self, pod: Pod, container: Container) -> Hints:
        """Return the sets of NUMA nodes that satisfy a container.

        :param pod: the pod.
        :param container: one of its containers; init containers come first.
        """
        ...

    def pod_hints(self, pod: Pod) -> Hints:
        """Return the sets of NUMA nodes that satisfy all containers of a pod together.

        :param pod: the pod.
        """
        ...

    def allocate(self, pod: Pod, container: Container, hint: Hint) -> None:
        """Assign the resource to a container; without effect if it is assigned already.

        :param pod: the pod.
        :param container: the container.
        :param hint: the merged hint; any NUMA node with policy ``none``.
        :raises NodeAgentError: the resource is exhausted; the pod is rejected.
        """
        ...

    def release(self, pod_uid: str) -> None:
        """Release what was assigned to a pod that is not admitted; idempotent.

        :param pod_uid: UID of the pod.
        """
        ...

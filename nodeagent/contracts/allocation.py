"""Contract of allocated and actuated resources of pods; ``context.allocations``."""

from __future__ import annotations

from typing import Protocol

from nodeagent.model.pod import ResourceRequirements


class PodAllocations(Protocol):
    """Resources that the runtime has applied, per container.

    Pods of the pod directory have their allocated resources in the spec; the difference is a resize in progress.
    """

    @property
    def resizing(self) -> bool:
        """True if pods are resized in place (spec: gate.InPlacePodVerticalScaling)."""
        ...

    def actuated(self, pod_uid: str, container: str) -> ResourceRequirements | None:
        """Return the resources that the runtime has applied to a container; ``None`` if they are not recorded.

        :param pod_uid: UID of the pod.
        :param container: name of the container.
        """
        ...

    def pod_actuated(self, pod_uid: str) -> ResourceRequirements | None:
        """Return the resources of the pod itself that its cgroup has; ``None`` if they are not recorded.

        :param pod_uid: UID of the pod.
        """
        ...

    async def record_pod_actuated(self, pod_uid: str, resources: ResourceRequirements | None) -> None:
        """Record that the pod's cgroup has the limits of *resources*.

        :param pod_uid: UID of the pod.
        :param resources: requests and limits of the pod itself; ``None`` if it has none.
        :raises NodeAgentError: the record cannot be written.
        """
        ...

    async def record_actuated(self, pod_uid: str, container: str, resources: ResourceRequirements) -> None:
        """Record that the runtime has applied *resources* to a container.

        :param pod_uid: UID of the pod.
        :param container: name of the container.
        :param resources: requests and limits.
        :raises NodeAgentError: the record cannot be written.
        """
        ...

"""Cgroups of pods."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from nodeagent.contracts.runtime import LinuxResources
from nodeagent.model.pod import Container, Pod


class CgroupManager(Protocol):
    """Keeps the tree of cgroups that pods live in.

    spec: config.cgroupsPerQOS, config.cgroupDriver, config.cgroupRoot, config.enforceNodeAllocatable
    """

    async def start(self) -> None:
        """Get ready for the first pod: called once, after the runtime has answered.

        :raises ConfigError: the machine cannot do what the configuration asks for; the agent ends.
        :raises NodeAgentError: the cgroups cannot be made; the agent ends.
        """
        ...

    def parent_of(self, pod: Pod) -> str:
        """Return the ``cgroup_parent`` that the runtime is given; empty leaves it to the runtime."""
        ...

    async def exists(self, pod: Pod) -> bool:
        """Tell whether the cgroup that the pod's containers belong into is there.

        When it is not and they run, they were started under another configuration and nothing limits them.
        """
        ...

    async def ensure_pod(self, pod: Pod) -> None:
        """Create the pod's cgroup with its limits; repeatable.

        :raises NodeAgentError: it cannot be made.
        """
        ...

    async def remove_pod(self, pod_uid: str) -> None:
        """Kill what is left in the pod's cgroup and remove it; repeatable."""
        ...

    async def kill_container(self, pod_uid: str, container_id: str) -> None:
        """Kill what still runs of a container that the runtime takes for dead; nothing happens where nothing does."""
        ...

    async def pods(self) -> Sequence[str]:
        """Return the UIDs of pods that have a cgroup."""
        ...

    def container_resources(self, pod: Pod, container: Container) -> LinuxResources:
        """Return the limits of one container (spec: config.cpuCFSQuota, config.cpuCFSQuotaPeriod)."""
        ...

    def pod_resources(self, pod: Pod) -> LinuxResources:
        """Return the sums of the pod, as the sandbox is told."""
        ...

"""Cgroups of pods."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Protocol, runtime_checkable

from nodeagent.base.structs import Struct
from nodeagent.contracts.runtime import LinuxResources
from nodeagent.model.pod import Container, Pod


class PodLimit(StrEnum):
    """A limit of a pod's cgroup."""

    MEMORY = "memory limit"
    CPU = "cpu limit"
    CPU_SHARES = "cpu shares"


class ProcessLimits(Struct, frozen=True):
    """Limits of a cgroup for processes that do not belong to a pod."""

    memory_bytes: int
    cpu_millis: int
    """Thousandths of a CPU."""
    pids: int


class CgroupManager(Protocol):
    """Manages the cgroup hierarchy of pods.

    spec: config.cgroupsPerQOS, config.cgroupDriver, config.cgroupRoot, config.enforceNodeAllocatable
    """

    @property
    def driver(self) -> str:
        """The cgroup driver in effect: from the start on that of the runtime, if the runtime reports one."""
        ...

    async def start(self) -> None:
        """Prepare for the first pod; called once, after the runtime has responded.

        :raises ConfigError: the host does not support the configuration; the agent exits.
        :raises NodeAgentError: the cgroups cannot be created; the agent exits.
        """
        ...

    def parent_of(self, pod: Pod) -> str:
        """Return the ``cgroup_parent`` of the sandbox; empty leaves it to the runtime.

        :param pod: the pod of the sandbox.
        """
        ...

    async def exists(self, pod: Pod) -> bool:
        """Return whether the pod's cgroup exists.

        If it does not while containers run, they were started under another configuration and run without limits.

        :param pod: the pod to look up.
        :raises NodeAgentError: the cgroup hierarchy cannot be read.
        """
        ...

    async def ensure_pod(self, pod: Pod) -> None:
        """Create the pod's cgroup with its limits; idempotent.

        :param pod: the admitted pod.
        :raises NodeAgentError: the cgroup cannot be created.
        """
        ...

    async def limit_pod(self, pod: Pod, limit: PodLimit) -> None:
        """Set one limit of the pod's existing cgroup; a resize changes them one by one.

        :param pod: the pod with its new resources.
        :param limit: the limit to set.
        :raises NodeAgentError: the limit cannot be set.
        """
        ...

    async def remove_pod(self, pod_uid: str) -> None:
        """Kill the remaining processes in the pod's cgroup and remove it; idempotent.

        :param pod_uid: UID of a terminated pod.
        :raises NodeAgentError: a process does not exit, or the cgroup cannot be removed; call again.
        """
        ...

    async def kill_container(self, pod_uid: str, container_id: str) -> None:
        """Kill the remaining processes of a container that the runtime reports as exited; no-op if there are none.

        :param pod_uid: UID of the container's pod.
        :param container_id: ID of the container in the runtime.
        :raises NodeAgentError: a process does not exit.
        """
        ...

    async def pods(self) -> Sequence[str]:
        """Return the UIDs of pods that have a cgroup.

        :raises NodeAgentError: the cgroup hierarchy cannot be read.
        """
        ...

    def exempt_from_quota(self, exclusive: Callable[[str, str], bool]) -> None:
        """Leave containers with exclusive CPUs, and pods that have such containers, without a CPU quota.

        Called: at most once, before the first pod is admitted.

        :param exclusive: returns whether a container has exclusive CPUs, by pod UID and container name.
        """
        ...

    def container_resources(self, pod: Pod, container: Container) -> LinuxResources:
        """Return the limits of one container (spec: config.cpuCFSQuota, config.cpuCFSQuotaPeriod).

        :param pod: the pod of the container.
        :param container: the container of the pod spec.
        """
        ...

    def pod_resources(self, pod: Pod) -> LinuxResources:
        """Return the total resources of the pod, as passed with the sandbox.

        :param pod: the pod.
        """
        ...


@runtime_checkable
class ProcessCgroups(Protocol):
    """A cgroup manager that also manages cgroups for processes outside of pods, such as out-of-process plugins."""

    async def ensure_processes(self, name: str, limits: ProcessLimits) -> Sequence[Path]:
        """Create a cgroup outside of that of the pods; return the files to which a process writes 0 to join it.

        :param name: unique name: lower case letters, digits and underscores.
        :param limits: the limits of all processes in it.
        :raises NodeAgentError: the cgroup cannot be created.
        """
        ...

    async def remove_processes(self, name: str) -> None:
        """Kill the processes in the cgroup and remove it; idempotent, also for one from before a restart.

        :param name: the name passed to :meth:`ensure_processes`.
        :raises NodeAgentError: a process does not exit.
        """
        ...

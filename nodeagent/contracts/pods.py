"""Contracts for pods: sources, the syncer and the pod directory."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from typing import Protocol

from msgspec import field

from nodeagent.base.structs import Struct
from nodeagent.contracts.runtime import RuntimePod, SandboxStatus
from nodeagent.errors import NodeAgentError
from nodeagent.model.pod import Pod, PodStatus

PublishPods = Callable[[Sequence[Pod]], None]


class PodSource(Protocol):
    """Publishes the complete set of pods that should run on this node, again after each change.

    A source never acts on pods. Until every source has published once, no pod is cleaned up, because the desired state
    is incomplete.
    """

    name: str
    """``file``, ``http``, ``api`` or the name of a third-party source; used in the annotation ``config.source``."""

    async def run(self, publish: PublishPods) -> None:
        """Publish sets until cancelled; failures are logged and retried, never raised.

        :param publish: called with each complete set of pods.
        """
        ...


class Rejection(Struct, frozen=True):
    """Rejection of a pod: a CamelCase reason and a message for users."""

    reason: str
    message: str
    retry: bool = False
    """At admission: the pod stays Pending and is admitted again after a delay, instead of failing."""


class WaitingReason(Struct, frozen=True):
    """Waiting reason of a container status, such as ``CrashLoopBackOff``."""

    reason: str
    message: str = ""


class SyncOutcome(Struct, frozen=True):
    """Result of one sync of a pod."""

    waiting: Mapping[str, WaitingReason] = field(default_factory=dict)
    """Waiting reasons of containers that could not be started; replaces the previous ones."""
    touched: frozenset[str] = frozenset()
    """IDs of sandboxes and containers that were created, started or stopped and must be refreshed immediately."""
    error: NodeAgentError | None = None
    """Error that requires a retry; waiting for a back-off is not an error."""
    retry_seconds: float | None = None
    """Time until the next sync is due, for example at the end of a restart back-off."""
    image_seconds: float = 0.0
    """Time spent waiting for images."""
    resize_error: str = ""
    """Cause for which running containers keep other resources than requested; empty for none."""
    created_sandbox: SandboxStatus | None = None
    """Status of the sandbox that was created, if it was requested after the creation; it is not requested again."""


class PodSyncer(Protocol):
    """Drives a pod towards its desired state, one sync at a time.

    Called by the pod's worker, never concurrently for one pod. Each sync must be idempotent: it is repeated after
    changes, failures and restarts of the agent, and at every resync. A call is cancelled when the agent stops or the
    pod must terminate; containers are then left unchanged.
    """

    async def sync_pod(self, pod: Pod, status: PodStatus, observed: RuntimePod) -> SyncOutcome:
        """Start the containers of *pod* that should run, and stop those that should not.

        :param pod: the desired pod.
        :param status: its last generated status.
        :param observed: its state in the runtime.
        :raises NodeAgentError: the sync failed and is retried with a back-off.
        """
        ...

    async def sync_terminating(self, pod: Pod, observed: RuntimePod, grace_seconds: int | None) -> SyncOutcome:
        """Stop all containers, then the sandboxes. The pod has terminated once nothing in *observed* is alive.

        :param pod: the terminating pod.
        :param observed: its state in the runtime.
        :param grace_seconds: overrides the pod's termination grace period.
        :raises NodeAgentError: the sync failed and is retried with a back-off.
        """
        ...

    async def sync_stopped(self, pod: Pod) -> None:
        """Release what other pods may use as soon as the pod reaches a terminal phase, such as devices of claims.

        Called after the last container has stopped, before the final status is reported; repeated until it succeeds.

        :param pod: the terminating pod.
        :raises NodeAgentError: something is still in use; called again with a back-off.
        """
        ...

    async def sync_terminated(self, pod: Pod, observed: RuntimePod) -> None:
        """Release the pod's volumes, cgroup and probes.

        Dead containers and their logs are retained, so that a finished pod can be inspected.

        :param pod: the terminated pod.
        :param observed: its state in the runtime.
        :raises NodeAgentError: a resource is still in use; called again.
        """
        ...

    async def remove_pod(self, pod: Pod, observed: RuntimePod) -> None:
        """Remove the dead containers, logs, sandboxes and directory of a terminated pod that is no longer desired.

        :param pod: the terminated pod.
        :param observed: its state in the runtime.
        :raises NodeAgentError: a resource cannot be removed now; called again.
        """
        ...

    async def remove_orphans(self, is_known: Callable[[str], bool]) -> None:
        """Remove directories and cgroups of pods that are neither desired nor exist in the runtime.

        :param is_known: returns whether a pod is desired or exists in the runtime now, by its UID. Pods are added
            concurrently: call it for a directory or cgroup after that was found, not before.
        :raises NodeAgentError: a directory or cgroup cannot be removed; logged and retried.
        """
        ...


class KillReason(StrEnum):
    """Reason why the agent terminates a pod."""

    DELETED = "Deleted"
    REMOVED = "Removed"
    EVICTED = "Evicted"
    PREEMPTED = "Preempting"
    DEADLINE = "DeadlineExceeded"
    SHUTDOWN = "Terminated"
    ORPHANED = "Orphaned"
    FINISHED = "Finished"
    REJECTED = "Rejected"

    @property
    def disruption(self) -> bool:
        """True if the termination is a disruption by the node, not caused by the pod or requested by its owner."""
        return self in (KillReason.EVICTED, KillReason.PREEMPTED, KillReason.SHUTDOWN)


class PodDirectory(Protocol):
    """The pods of this node; ``context.pods``."""

    @property
    def all_sources_ready(self) -> bool:
        """True if every source has published its pods, so that a pod that is not listed is not desired."""
        ...

    def all(self) -> Sequence[Pod]:
        """Return the desired pods without mirror pods, with the resources that they request."""
        ...

    def active(self) -> Sequence[Pod]:
        """Return the admitted pods that have not terminated, with the resources that they were granted."""
        ...

    def get(self, uid: str) -> Pod | None:
        """Return the desired pod of that UID, or ``None``.

        :param uid: UID of the pod.
        """
        ...

    def status(self, uid: str) -> PodStatus | None:
        """Return the last generated status, which may not have reached the API server yet.

        :param uid: UID of the pod.
        """
        ...

    def reported_status(self, uid: str) -> PodStatus | None:
        """Return the status in the API, for a static pod that of its mirror pod; ``None`` if it has not been read.

        :param uid: UID of the pod.
        """
        ...

    def observed(self, uid: str) -> RuntimePod | None:
        """Return the pod's last observed status in the runtime.

        :param uid: UID of the pod.
        """
        ...

    def trigger_sync(self, uid: str) -> None:
        """Request an immediate sync of the pod; unknown pods are ignored.

        :param uid: UID of the pod.
        """
        ...

    def kill(
        self, uid: str, reason: KillReason, message: str, *, status_reason: str = "", grace_seconds: int | None = None
    ) -> None:
        """Start to terminate a pod; with *status_reason*, its phase becomes Failed with that reason and *message*.

        A pod that a plugin has not admitted yet is terminated, too: it may run since before a restart of the agent.

        :param uid: UID of the pod; rejected and unknown pods are ignored.
        :param reason: the reason, as data.
        :param message: message for users.
        :param status_reason: reason in the pod status, such as ``Evicted``; empty leaves the phase to the containers.
        :param grace_seconds: grace period in seconds; ``None`` uses that of the pod.
        """
        ...


def undecided_pods(pods: PodDirectory) -> list[Pod]:
    """Return the desired pods that are neither admitted nor rejected yet.

    Shortly after a start of the agent, their containers may run already.
    """
    active = {pod.uid for pod in pods.active()}
    return [pod for pod in pods.all() if pod.uid not in active and pods.status(pod.uid) is None]


def find_pod(pods: PodDirectory, namespace: str, name: str, uid: str = "") -> Pod | None:
    """Return the desired pod of that name; with *uid*, only if the UID matches."""
    for pod in pods.all():
        if pod.name == name and pod.namespace == namespace and uid in ("", pod.uid):
            return pod
    return None

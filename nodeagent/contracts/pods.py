"""Where wanted pods come from, how one is brought to its wanted state, and what others may ask about pods."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol

from nodeagent.contracts.runtime import RuntimePod
from nodeagent.errors import NodeAgentError
from nodeagent.model.pod import Pod, PodStatus

PublishPods = Callable[[Sequence[Pod]], None]


class PodSource(Protocol):
    """Emits the whole set of pods it wants on this node, again after each change.

    A source never acts on pods. A set that is published once counts: until a source has published, nothing is
    cleaned up, because its pods are not known yet.
    """

    name: str
    """``file``, ``http``, ``api`` or a third party's own; shown in the annotation ``config.source``."""

    async def run(self, publish: PublishPods) -> None:
        """Publish sets until cancelled; faults are logged and tried again, never raised."""
        ...


@dataclass(frozen=True, slots=True)
class Rejection:
    """Why a pod may not run here: the CamelCase reason and the sentence users see."""

    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class WaitingReason:
    """Why a container does not run yet (``CrashLoopBackOff`` …), as its status shows it."""

    reason: str
    message: str = ""


@dataclass(frozen=True, slots=True)
class SyncOutcome:
    """What one step of a pod did."""

    waiting: Mapping[str, WaitingReason] = field(default_factory=dict)
    """Containers that could not be started, and why; replaces what was known before."""
    touched: frozenset[str] = frozenset()
    """Ids of sandboxes and containers that were created, started or stopped: look at them again at once."""
    error: NodeAgentError | None = None
    """Why the step has to be repeated; back-offs that are merely waited out are no error."""
    retry_seconds: float | None = None
    """When something is due next, such as the end of a restart back-off."""
    image_seconds: float = 0.0
    """How long the step waited for images."""


class PodSyncer(Protocol):
    """Brings one pod to its wanted state, one step at a time.

    Called from the pod's own worker, never twice at once for one pod. Each step must be repeatable: it is called
    again after changes, failures, restarts of the agent, and at every resync. Cancelling a call means that the agent
    goes or that the pod is to end; containers are left as they are.
    """

    async def sync_pod(self, pod: Pod, status: PodStatus, observed: RuntimePod) -> SyncOutcome:
        """Take the next steps towards *pod* running; containers that should not run are stopped."""
        ...

    async def sync_terminating(self, pod: Pod, observed: RuntimePod, grace_seconds: int | None) -> SyncOutcome:
        """Stop every container, then the sandboxes. The pod has ended when *observed* shows nothing alive.

        :param grace_seconds: replaces the pod's own grace when given.
        """
        ...

    async def sync_terminated(self, pod: Pod, observed: RuntimePod) -> None:
        """Release what the pod held while it ran: volumes, cgroup, probes. Raises to be called again later.

        Its dead containers and their logs stay: a finished pod can still be looked at.
        """
        ...

    async def remove_pod(self, pod: Pod, observed: RuntimePod) -> None:
        """Remove the dead containers, logs, sandboxes and directory of a terminated pod that nobody wants any more.

        Raises to be called again later.
        """
        ...

    async def remove_orphans(self, wanted: frozenset[str], observed: frozenset[str]) -> None:
        """Remove leftovers (directories, cgroups) of pods that are neither wanted nor known to the runtime."""
        ...


class KillReason(StrEnum):
    """Why a pod ends before it finished by itself."""

    DELETED = "Deleted"
    REMOVED = "Removed"
    EVICTED = "Evicted"
    PREEMPTED = "Preempting"
    DEADLINE = "DeadlineExceeded"
    SHUTDOWN = "Terminated"
    ORPHANED = "Orphaned"
    FINISHED = "Finished"

    @property
    def disruption(self) -> bool:
        """Whether the node ends the pod for its own sake, not because of anything the pod did or its owner asked."""
        return self in (KillReason.EVICTED, KillReason.PREEMPTED, KillReason.SHUTDOWN)


class PodDirectory(Protocol):
    """What the agent knows about pods; ``context.pods``."""

    def all(self) -> Sequence[Pod]:
        """Return the wanted pods, mirror pods left out."""
        ...

    def active(self) -> Sequence[Pod]:
        """Return the admitted pods that have not ended."""
        ...

    def get(self, uid: str) -> Pod | None: ...

    def status(self, uid: str) -> PodStatus | None:
        """Return the status last generated, which may not have reached the API server yet."""
        ...

    def observed(self, uid: str) -> RuntimePod | None:
        """Return what the runtime last showed of the pod."""
        ...

    def trigger_sync(self, uid: str) -> None:
        """Have the pod's worker look again now; unknown pods are ignored."""
        ...

    def kill(
        self, uid: str, reason: KillReason, message: str, *, status_reason: str = "", grace_seconds: int | None = None
    ) -> None:
        """Start to end a pod; it finishes as Failed with *status_reason* and *message* when one is given."""
        ...


def find_pod(pods: PodDirectory, namespace: str, name: str, uid: str = "") -> Pod | None:
    """Return the wanted pod of that name; with *uid* only if it is that very one."""
    for pod in pods.all():
        if pod.name == name and pod.namespace == namespace and uid in ("", pod.uid):
            return pod
    return None

"""State of sandboxes and containers in the container runtime, and its events.

Timestamps are nanoseconds since the epoch, as reported by the runtime.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import IntEnum, StrEnum

from msgspec import field

from nodeagent.base.structs import Struct
from nodeagent.contracts.runtime_config import LinuxResources, Mount, NamespaceMode

LABEL_POD_NAME = "io.kubernetes.pod.name"
LABEL_POD_NAMESPACE = "io.kubernetes.pod.namespace"
LABEL_POD_UID = "io.kubernetes.pod.uid"
LABEL_CONTAINER_NAME = "io.kubernetes.container.name"
ANNOTATION_HASH = "io.kubernetes.container.hash"
ANNOTATION_RESTART_COUNT = "io.kubernetes.container.restartCount"
ANNOTATION_MESSAGE_PATH = "io.kubernetes.container.terminationMessagePath"
ANNOTATION_MESSAGE_POLICY = "io.kubernetes.container.terminationMessagePolicy"
ANNOTATION_PRE_STOP = "io.kubernetes.container.preStopHandler"
ANNOTATION_PORTS = "io.kubernetes.container.ports"
ANNOTATION_GRACE = "io.kubernetes.pod.terminationGracePeriod"
ANNOTATION_DEVICES = "io.kubernetes.container.devices"
"""Devices of the container by extended resource, as JSON; with it, allocations survive the loss of their file."""
ANNOTATION_DELETION_GRACE = "io.kubernetes.pod.deletionGracePeriod"

# Runtime messages for a start whose client disconnected: the call is cancelled together with the process it started.
_INTERRUPTED = ("context canceled", "signal: killed")


class ContainerState(IntEnum):
    """State of a container; the numbers are CRI's."""

    CREATED = 0
    RUNNING = 1
    EXITED = 2
    UNKNOWN = 3


class SandboxInfo(Struct, frozen=True):
    """A sandbox as returned by a list call."""

    id: str
    name: str
    uid: str
    namespace: str
    attempt: int
    ready: bool
    created_at: int
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    runtime_handler: str = ""


class SandboxStatus(Struct, frozen=True):
    """Detailed status of a sandbox."""

    id: str
    name: str
    uid: str
    namespace: str
    attempt: int
    ready: bool
    created_at: int
    ips: Sequence[str] = ()
    """One address per IP family, the node's primary family first."""
    network_mode: NamespaceMode = NamespaceMode.POD
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    runtime_handler: str = ""


class ContainerInfo(Struct, frozen=True):
    """A container as returned by a list call."""

    id: str
    sandbox_id: str
    name: str
    attempt: int
    image: str
    image_ref: str
    state: ContainerState
    created_at: int
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    image_id: str = ""
    """ID of the image in the runtime's store; empty if the runtime does not report it."""


class ContainerUser(Struct, frozen=True):
    """User and groups of a container's first process."""

    uid: int
    gid: int
    supplemental_groups: Sequence[int] = ()


class RuntimeContainerStatus(Struct, frozen=True):
    """Detailed status of a container."""

    id: str
    name: str
    attempt: int
    state: ContainerState
    created_at: int
    started_at: int
    finished_at: int
    exit_code: int
    image: str
    image_ref: str
    reason: str = ""
    message: str = ""
    log_path: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    mounts: Sequence[Mount] = ()
    image_id: str = ""
    """ID of the image in the runtime's store; empty if the runtime does not report it."""
    user: ContainerUser | None = None
    """``None`` if the runtime does not report it."""
    stop_signal: str = ""
    """Name of the stop signal, such as ``SIGTERM``; empty if the runtime does not report it."""
    resources: LinuxResources | None = None
    """Resources in effect; ``None`` if the runtime does not report them."""

    @property
    def start_interrupted(self) -> bool:
        """True if the container never ran because the agent exited during the start call."""
        failed_start = self.state is ContainerState.EXITED and not self.started_at
        return failed_start and any(text in self.message for text in _INTERRUPTED)


class RuntimePod(Struct, frozen=True):
    """State of one pod in the runtime; sandboxes and containers are sorted latest first."""

    uid: str
    name: str
    namespace: str
    sandboxes: Sequence[SandboxStatus] = ()
    containers: Sequence[RuntimeContainerStatus] = ()
    observed_at: float = 0.0
    """Monotonic time at which the observation started."""

    @property
    def ips(self) -> Sequence[str]:
        """IPs of the latest sandbox, if it is ready."""
        return self.sandboxes[0].ips if self.sandboxes and self.sandboxes[0].ready else ()

    @property
    def alive(self) -> bool:
        """True if a container or sandbox may still be running."""
        return any(c.state in (ContainerState.RUNNING, ContainerState.UNKNOWN) for c in self.containers) or any(
            s.ready for s in self.sandboxes
        )

    def newest(self, name: str) -> RuntimeContainerStatus | None:
        """Return the latest container called *name*."""
        return next((c for c in self.containers if c.name == name), None)


class RuntimeEventType(StrEnum):
    """Type of an event of the runtime."""

    CREATED = "CREATED"
    STARTED = "STARTED"
    STOPPED = "STOPPED"
    DELETED = "DELETED"


class RuntimeEvent(Struct, frozen=True):
    """An event of the runtime's event stream, with the pod's status at that time."""

    type: RuntimeEventType
    container_id: str
    pod_uid: str
    pod: RuntimePod | None = None
    created_at: int = 0
    """Time of the event; 0 if the runtime does not report it."""

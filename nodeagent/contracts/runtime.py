"""The container runtime as the agent sees it: sandboxes, containers and images.

The bundled plugin speaks CRI v1 over gRPC; another may speak anything. Every call is bounded by the implementation
and raises :class:`~nodeagent.errors.RuntimeUnavailable` when the runtime cannot be reached or is too slow,
:class:`~nodeagent.errors.NotFound` when it does not know the object, else
:class:`~nodeagent.errors.RuntimeFailure`. Times of day are nanoseconds since the epoch, as the runtime tells them.
spec: config.containerRuntimeEndpoint, config.imageServiceEndpoint, config.runtimeRequestTimeout
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum, StrEnum
from typing import Protocol, runtime_checkable

from nodeagent.contracts.stats import InterfaceStats

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
ANNOTATION_DELETION_GRACE = "io.kubernetes.pod.deletionGracePeriod"


# What a runtime says of a start whose caller went away: the call is cancelled, and with it what the call had started.
_INTERRUPTED = ("context canceled", "signal: killed")


class ContainerState(IntEnum):
    """State of a container; the numbers are CRI's."""

    CREATED = 0
    RUNNING = 1
    EXITED = 2
    UNKNOWN = 3


class NamespaceMode(IntEnum):
    """Whose Linux namespace a container uses; the numbers are CRI's."""

    POD = 0
    CONTAINER = 1
    NODE = 2
    TARGET = 3


class MountPropagation(IntEnum):
    PRIVATE = 0
    HOST_TO_CONTAINER = 1
    BIDIRECTIONAL = 2


class ProfileType(IntEnum):
    """Kind of a security profile; the numbers are CRI's."""

    RUNTIME_DEFAULT = 0
    UNCONFINED = 1
    LOCALHOST = 2


# --- what to run ----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class SecurityProfile:
    """A seccomp or AppArmor profile; ``path`` is the file or profile name of a localhost one."""

    type: ProfileType = ProfileType.RUNTIME_DEFAULT
    path: str = ""


@dataclass(frozen=True, slots=True)
class SeLinux:
    user: str = ""
    role: str = ""
    type: str = ""
    level: str = ""


@dataclass(frozen=True, slots=True)
class Namespaces:
    network: NamespaceMode = NamespaceMode.POD
    pid: NamespaceMode = NamespaceMode.CONTAINER
    ipc: NamespaceMode = NamespaceMode.POD
    target_id: str = ""


@dataclass(frozen=True, slots=True)
class LinuxResources:
    """Limits of a pod or container; a zero is "not given", bytes and microseconds as CRI has them."""

    cpu_period: int = 0
    cpu_quota: int = 0
    cpu_shares: int = 0
    memory_limit_bytes: int = 0
    oom_score_adj: int = 0
    cpuset_cpus: str = ""
    cpuset_mems: str = ""
    hugepage_limits: Mapping[str, int] = field(default_factory=dict)
    unified: Mapping[str, str] = field(default_factory=dict)
    memory_swap_limit_bytes: int = 0


@dataclass(frozen=True, slots=True)
class PortMapping:
    container_port: int
    host_port: int = 0
    protocol: str = "TCP"
    host_ip: str = ""


@dataclass(frozen=True, slots=True)
class DnsConfig:
    servers: Sequence[str] = ()
    searches: Sequence[str] = ()
    options: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class SandboxSecurity:
    namespaces: Namespaces = Namespaces()
    selinux: SeLinux | None = None
    run_as_user: int | None = None
    run_as_group: int | None = None
    readonly_rootfs: bool = False
    supplemental_groups: Sequence[int] = ()
    privileged: bool = False
    seccomp: SecurityProfile = SecurityProfile()


@dataclass(frozen=True, slots=True)
class SandboxConfig:
    """Everything a runtime needs to make a pod's sandbox."""

    name: str
    uid: str
    namespace: str
    attempt: int = 0
    hostname: str = ""
    log_directory: str = ""
    dns: DnsConfig | None = None
    port_mappings: Sequence[PortMapping] = ()
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    cgroup_parent: str = ""
    sysctls: Mapping[str, str] = field(default_factory=dict)
    security: SandboxSecurity = SandboxSecurity()
    overhead: LinuxResources | None = None
    resources: LinuxResources | None = None


@dataclass(frozen=True, slots=True)
class Mount:
    container_path: str
    host_path: str
    readonly: bool = False
    selinux_relabel: bool = False
    propagation: MountPropagation = MountPropagation.PRIVATE


@dataclass(frozen=True, slots=True)
class Device:
    container_path: str
    host_path: str
    permissions: str = "mrw"


@dataclass(frozen=True, slots=True)
class ContainerSecurity:
    capabilities_add: Sequence[str] = ()
    capabilities_drop: Sequence[str] = ()
    privileged: bool = False
    namespaces: Namespaces = Namespaces()
    selinux: SeLinux | None = None
    run_as_user: int | None = None
    run_as_group: int | None = None
    run_as_username: str = ""
    readonly_rootfs: bool = False
    supplemental_groups: Sequence[int] = ()
    no_new_privs: bool = False
    masked_paths: Sequence[str] = ()
    readonly_paths: Sequence[str] = ()
    seccomp: SecurityProfile = SecurityProfile(ProfileType.UNCONFINED)
    apparmor: SecurityProfile | None = None


@dataclass(frozen=True, slots=True)
class ContainerConfig:
    """Everything a runtime needs to make a container."""

    name: str
    attempt: int
    image: str
    """The image reference that the runtime's store knows (an id or digest from the pull)."""
    user_image: str = ""
    """The image as the pod names it."""
    command: Sequence[str] = ()
    args: Sequence[str] = ()
    working_dir: str = ""
    envs: Sequence[tuple[str, str]] = ()
    mounts: Sequence[Mount] = ()
    devices: Sequence[Device] = ()
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    log_path: str = ""
    """Relative to the sandbox's log directory."""
    stdin: bool = False
    stdin_once: bool = False
    tty: bool = False
    resources: LinuxResources = LinuxResources()
    security: ContainerSecurity = ContainerSecurity()


# --- what runs ------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class SandboxInfo:
    """A sandbox as listed."""

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


@dataclass(frozen=True, slots=True)
class SandboxStatus:
    """A sandbox looked at closely."""

    id: str
    name: str
    uid: str
    namespace: str
    attempt: int
    ready: bool
    created_at: int
    ips: Sequence[str] = ()
    """One address of each family, that of the node's primary family first."""
    network_mode: NamespaceMode = NamespaceMode.POD
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    runtime_handler: str = ""


@dataclass(frozen=True, slots=True)
class ContainerInfo:
    """A container as listed."""

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


@dataclass(frozen=True, slots=True)
class RuntimeContainerStatus:
    """A container looked at closely."""

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

    @property
    def start_interrupted(self) -> bool:
        """Whether it never ran because the agent went away while it asked for the start."""
        ended = self.state is ContainerState.EXITED and not self.started_at
        return ended and any(sign in self.message for sign in _INTERRUPTED)


@dataclass(frozen=True, slots=True)
class RuntimePod:
    """One pod as the runtime knows it: newest sandbox first, newest container first."""

    uid: str
    name: str
    namespace: str
    sandboxes: Sequence[SandboxStatus] = ()
    containers: Sequence[RuntimeContainerStatus] = ()
    observed_at: float = 0.0
    """Monotonic time at which the observation began."""

    @property
    def ips(self) -> Sequence[str]:
        """IPs of the newest ready sandbox."""
        return self.sandboxes[0].ips if self.sandboxes and self.sandboxes[0].ready else ()

    @property
    def alive(self) -> bool:
        """Whether a container or sandbox may still run something."""
        return any(c.state in (ContainerState.RUNNING, ContainerState.UNKNOWN) for c in self.containers) or any(
            s.ready for s in self.sandboxes
        )

    def newest(self, name: str) -> RuntimeContainerStatus | None:
        """Return the newest container called *name*."""
        return next((c for c in self.containers if c.name == name), None)


class RuntimeEventType(StrEnum):
    CREATED = "CREATED"
    STARTED = "STARTED"
    STOPPED = "STOPPED"
    DELETED = "DELETED"


@dataclass(frozen=True, slots=True)
class RuntimeEvent:
    """One entry of the runtime's own event stream, with the pod's status at that moment."""

    type: RuntimeEventType
    container_id: str
    pod_uid: str
    pod: RuntimePod | None = None
    created_at: int = 0
    """When it happened; 0 where the runtime does not tell."""


@dataclass(frozen=True, slots=True)
class RuntimeVersion:
    name: str
    version: str
    api_version: str


@dataclass(frozen=True, slots=True)
class RuntimeCondition:
    type: str
    status: bool
    reason: str = ""
    message: str = ""


@dataclass(frozen=True, slots=True)
class ExecResult:
    exit_code: int
    stdout: bytes = b""
    stderr: bytes = b""


@dataclass(frozen=True, slots=True)
class ContainerStats:
    """Usage of one container; cumulative CPU in nanoseconds, sizes in bytes, times in epoch nanoseconds."""

    id: str
    name: str
    pod_uid: str
    timestamp: int = 0
    cpu_usage_core_nanoseconds: int = 0
    memory_working_set_bytes: int = 0
    memory_usage_bytes: int = 0
    memory_rss_bytes: int = 0
    writable_layer_bytes: int = 0
    writable_layer_inodes: int = 0
    writable_layer_mountpoint: str = ""
    """Where the file system of writable layers is mounted, or any directory in it."""
    memory_available_bytes: int | None = None
    """``None`` without a limit."""
    page_faults: int = 0
    major_page_faults: int = 0
    swap_usage_bytes: int | None = None
    swap_available_bytes: int | None = None
    cpu_usage_nanocores: int | None = None
    """The runtime's own figure of the use a second, where it has one."""


@dataclass(frozen=True, slots=True)
class SandboxStats:
    """Usage of one pod with its containers, as the runtime counts it; what it does not tell is ``None``."""

    id: str
    pod_uid: str
    timestamp: int = 0
    cpu_usage_core_nanoseconds: int | None = None
    cpu_usage_nanocores: int | None = None
    memory_available_bytes: int | None = None
    memory_working_set_bytes: int | None = None
    memory_usage_bytes: int | None = None
    memory_rss_bytes: int | None = None
    page_faults: int | None = None
    major_page_faults: int | None = None
    process_count: int | None = None
    interfaces: Sequence[InterfaceStats] = ()
    """The default one first."""
    containers: Sequence[ContainerStats] = ()


class ContainerRuntime(Protocol):
    """Runs sandboxes and containers. Every call may be repeated safely after a failure."""

    async def version(self) -> RuntimeVersion: ...

    async def status(self) -> Sequence[RuntimeCondition]:
        """Return the runtime's conditions; ``RuntimeReady`` and ``NetworkReady`` are always among them."""
        ...

    async def cgroup_driver(self) -> str:
        """Return who makes cgroups for the runtime, ``cgroupfs`` or ``systemd``; empty when it does not tell."""
        ...

    async def update_pod_cidr(self, pod_cidr: str) -> None: ...

    async def run_sandbox(self, config: SandboxConfig, runtime_handler: str = "") -> str:
        """Create and start a sandbox; return its id."""
        ...

    async def stop_sandbox(self, sandbox_id: str) -> None:
        """Stop a sandbox with all in it and release its network; unknown ids are fine."""
        ...

    async def remove_sandbox(self, sandbox_id: str) -> None: ...

    async def list_sandboxes(self, pod_uid: str = "") -> Sequence[SandboxInfo]:
        """Return every sandbox, or those of one pod; the same object again while nothing changed."""
        ...

    async def sandbox_status(self, sandbox_id: str) -> SandboxStatus: ...

    async def create_container(self, sandbox_id: str, config: ContainerConfig, sandbox: SandboxConfig) -> str: ...

    async def start_container(self, container_id: str) -> None: ...

    async def stop_container(self, container_id: str, grace_seconds: int) -> None:
        """Send the stop signal, and SIGKILL *grace_seconds* later; unknown ids are fine."""
        ...

    async def remove_container(self, container_id: str) -> None: ...

    async def list_containers(self, pod_uid: str = "") -> Sequence[ContainerInfo]:
        """Return every container, or those of one pod; the same object again while nothing changed."""
        ...

    async def container_status(self, container_id: str) -> RuntimeContainerStatus: ...

    async def update_resources(self, container_id: str, resources: LinuxResources) -> None: ...

    async def reopen_log(self, container_id: str) -> None: ...

    async def exec_sync(self, container_id: str, command: Sequence[str], timeout_seconds: float) -> ExecResult:
        """Run *command* and collect its output; a timeout of 0 is none.

        :raises TimeoutError: the command did not end in time.
        """
        ...

    async def exec_url(
        self, container_id: str, command: Sequence[str], *, stdin: bool, stdout: bool, stderr: bool, tty: bool
    ) -> str:
        """Return the URL of the runtime's streaming endpoint for this exec."""
        ...

    async def attach_url(self, container_id: str, *, stdin: bool, stdout: bool, stderr: bool, tty: bool) -> str: ...

    async def port_forward_url(self, sandbox_id: str, ports: Sequence[int]) -> str: ...

    async def container_stats(self) -> Sequence[ContainerStats]: ...

    async def sandbox_stats(self) -> Sequence[SandboxStats]:
        """Return the usage of every pod as the runtime counts it.

        :raises NotImplementedError: the runtime has no such call.
        """
        ...

    def events(self) -> AsyncIterator[RuntimeEvent] | None:
        """Return the runtime's event stream, or ``None`` when it has none.

        Iterating raises :class:`NotImplementedError` at once when the runtime answers that it has no such call.
        """
        ...


@runtime_checkable
class RuntimeInfoProvider(Protocol):
    """A runtime that also tells how it is set up."""

    async def info(self) -> Mapping[str, str]:
        """Return what the runtime says of itself, texts of a form of its own by name (``config`` in containerd)."""
        ...


@runtime_checkable
class CheckpointingRuntime(Protocol):
    """A runtime that can write a running container's state to disk (spec: gate.ContainerCheckpoint)."""

    async def checkpoint_container(self, container_id: str, location: str, timeout_seconds: int) -> None:
        """Write the state to the file *location*; a timeout of 0 is the runtime's own.

        :raises NotImplementedError: this runtime has no such call, or not what it needs for it.
        """
        ...


# --- images ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Image:
    """An image in the runtime's store."""

    id: str
    repo_tags: Sequence[str] = ()
    repo_digests: Sequence[str] = ()
    size_bytes: int = 0
    uid: int | None = None
    username: str = ""
    pinned: bool = False

    @property
    def names(self) -> frozenset[str]:
        """Every text that may stand for it: id, digest alone, tags, repositories with digest."""
        return frozenset((self.id, self.id.removeprefix("sha256:"), *self.repo_tags, *self.repo_digests))


@dataclass(frozen=True, slots=True)
class Credentials:
    """What opens a registry; never shown."""

    username: str = field(repr=False, default="")
    password: str = field(repr=False, default="")
    source: str = ""
    """Who gave them: a pull secret's name or a plugin."""


@dataclass(frozen=True, slots=True)
class FilesystemUsage:
    mountpoint: str
    used_bytes: int
    inodes_used: int
    timestamp: int = 0


class ImageService(Protocol):
    """The runtime's image store."""

    async def list_images(self) -> Sequence[Image]: ...

    async def image_status(self, image: str) -> Image | None:
        """Return the image, or ``None`` when it is not in the store."""
        ...

    async def pull_image(
        self, image: str, credentials: Credentials | None = None, sandbox: SandboxConfig | None = None
    ) -> str:
        """Pull *image* and return the reference under which the store holds it; has no deadline of its own."""
        ...

    async def remove_image(self, image: str) -> None: ...

    async def filesystem_usage(self) -> Sequence[FilesystemUsage]: ...


@dataclass(frozen=True, slots=True)
class Transfer:
    """A part of an image that is being received from a registry."""

    ref: str
    """What names the part, such as a layer by its digest."""
    received_bytes: int
    total_bytes: int
    """0 when the runtime does not know."""


@runtime_checkable
class ProgressReportingImageService(ImageService, Protocol):
    """An image store that also tells how far its pulls are."""

    async def transfers(self) -> Sequence[Transfer] | None:
        """Return the parts that are under way, of all pulls; ``None`` when the runtime does not tell."""
        ...

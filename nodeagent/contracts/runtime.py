"""Contracts of the container runtime: sandboxes, containers and images.

The bundled plugin implements them with CRI v1 over gRPC; other plugins may use any protocol. Every call has a deadline
and raises :class:`~nodeagent.errors.RuntimeUnavailable` if the runtime cannot be reached or is too slow,
:class:`~nodeagent.errors.NotFound` if the object does not exist, otherwise
:class:`~nodeagent.errors.RuntimeFailure`. Timestamps are nanoseconds since the epoch, as reported by the runtime.
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


# Runtime messages for a start whose client disconnected: the call is cancelled together with the process it started.
_INTERRUPTED = ("context canceled", "signal: killed")


class ContainerState(IntEnum):
    """State of a container; the numbers are CRI's."""

    CREATED = 0
    RUNNING = 1
    EXITED = 2
    UNKNOWN = 3


class NamespaceMode(IntEnum):
    """Linux namespace that a container uses; the numbers are CRI's."""

    POD = 0
    CONTAINER = 1
    NODE = 2
    TARGET = 3


class MountPropagation(IntEnum):
    """Propagation of mounts between host and container."""

    PRIVATE = 0
    HOST_TO_CONTAINER = 1
    BIDIRECTIONAL = 2


class ProfileType(IntEnum):
    """Type of a security profile; the numbers are CRI's."""

    RUNTIME_DEFAULT = 0
    UNCONFINED = 1
    LOCALHOST = 2


# --- configuration --------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class SecurityProfile:
    """A seccomp or AppArmor profile; ``path`` is the file or profile name of a localhost profile."""

    type: ProfileType = ProfileType.RUNTIME_DEFAULT
    path: str = ""


@dataclass(frozen=True, slots=True)
class SeLinux:
    """SELinux label of a process; empty parts use the default."""

    user: str = ""
    role: str = ""
    type: str = ""
    level: str = ""


@dataclass(frozen=True, slots=True)
class Namespaces:
    """Namespaces of a sandbox or container."""

    network: NamespaceMode = NamespaceMode.POD
    pid: NamespaceMode = NamespaceMode.CONTAINER
    ipc: NamespaceMode = NamespaceMode.POD
    target_id: str = ""


@dataclass(frozen=True, slots=True)
class LinuxResources:
    """Resources of a pod or container in CRI's units (bytes, microseconds); zero means not specified."""

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
    """A host port that is forwarded to a port of the sandbox."""

    container_port: int
    host_port: int = 0
    protocol: str = "TCP"
    host_ip: str = ""


@dataclass(frozen=True, slots=True)
class DnsConfig:
    """Contents of ``resolv.conf``."""

    servers: Sequence[str] = ()
    searches: Sequence[str] = ()
    options: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class SandboxSecurity:
    """Security context of a sandbox."""

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
    """Configuration of a pod's sandbox."""

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
    """A bind mount from the host."""

    container_path: str
    host_path: str
    readonly: bool = False
    selinux_relabel: bool = False
    propagation: MountPropagation = MountPropagation.PRIVATE


@dataclass(frozen=True, slots=True)
class Device:
    """A device of the host in a container."""

    container_path: str
    host_path: str
    permissions: str = "mrw"


@dataclass(frozen=True, slots=True)
class ContainerSecurity:
    """Security context of a container."""

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
    """Configuration of a container."""

    name: str
    attempt: int
    image: str
    """The image reference in the runtime's store (an ID or digest from the pull)."""
    user_image: str = ""
    """The image as specified in the pod."""
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


# --- state ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class SandboxInfo:
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


@dataclass(frozen=True, slots=True)
class SandboxStatus:
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


@dataclass(frozen=True, slots=True)
class ContainerInfo:
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


@dataclass(frozen=True, slots=True)
class RuntimeContainerStatus:
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

    @property
    def start_interrupted(self) -> bool:
        """True if the container never ran because the agent exited during the start call."""
        failed_start = self.state is ContainerState.EXITED and not self.started_at
        return failed_start and any(text in self.message for text in _INTERRUPTED)


@dataclass(frozen=True, slots=True)
class RuntimePod:
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


@dataclass(frozen=True, slots=True)
class RuntimeEvent:
    """An event of the runtime's event stream, with the pod's status at that time."""

    type: RuntimeEventType
    container_id: str
    pod_uid: str
    pod: RuntimePod | None = None
    created_at: int = 0
    """Time of the event; 0 if the runtime does not report it."""


@dataclass(frozen=True, slots=True)
class RuntimeVersion:
    """Name and versions of the runtime."""

    name: str
    version: str
    api_version: str


@dataclass(frozen=True, slots=True)
class RuntimeCondition:
    """A condition of the runtime, such as ``NetworkReady``."""

    type: str
    status: bool
    reason: str = ""
    message: str = ""


@dataclass(frozen=True, slots=True)
class ExecResult:
    """Result of a command."""

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
    """Mount point of the file system of writable layers, or a directory in it."""
    memory_available_bytes: int | None = None
    """``None`` without a limit."""
    page_faults: int = 0
    major_page_faults: int = 0
    swap_usage_bytes: int | None = None
    swap_available_bytes: int | None = None
    cpu_usage_nanocores: int | None = None
    """The runtime's own rate of CPU usage, if reported."""


@dataclass(frozen=True, slots=True)
class SandboxStats:
    """Usage of one pod and its containers as measured by the runtime; unreported values are ``None``."""

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
    """Runs sandboxes and containers. Every call can be retried safely after a failure."""

    async def version(self) -> RuntimeVersion:
        """Return the name and versions of the runtime.

        :raises RuntimeUnavailable: the runtime cannot be reached, or did not respond in time.
        :raises RuntimeFailure: the runtime returned an error.
        """
        ...

    async def status(self) -> Sequence[RuntimeCondition]:
        """Return the runtime's conditions; ``RuntimeReady`` and ``NetworkReady`` are always among them.

        :raises RuntimeUnavailable: the runtime cannot be reached, or did not respond in time.
        :raises RuntimeFailure: the runtime returned an error.
        """
        ...

    async def cgroup_driver(self) -> str:
        """Return the runtime's cgroup driver, ``cgroupfs`` or ``systemd``; empty if it does not report one.

        :raises RuntimeUnavailable: the runtime cannot be reached, or did not respond in time.
        :raises RuntimeFailure: the runtime returned an error.
        """
        ...

    async def update_pod_cidr(self, pod_cidr: str) -> None:
        """Pass the node's pod CIDR to the runtime.

        :param pod_cidr: CIDR, such as ``10.1.2.0/24``; two are separated by a comma.
        :raises RuntimeUnavailable: the runtime cannot be reached, or did not respond in time.
        :raises RuntimeFailure: the runtime returned an error.
        """
        ...

    async def run_sandbox(self, config: SandboxConfig, runtime_handler: str = "") -> str:
        """Create and start a sandbox; return its ID.

        :param config: the configuration of the sandbox.
        :param runtime_handler: handler of the RuntimeClass; empty selects the default.
        :raises RuntimeUnavailable: the runtime cannot be reached, or did not respond in time.
        :raises RuntimeFailure: the runtime returned an error.
        """
        ...

    async def stop_sandbox(self, sandbox_id: str) -> None:
        """Stop a sandbox with its containers and release its network; unknown IDs are ignored.

        :param sandbox_id: ID of the sandbox.
        :raises RuntimeUnavailable: the runtime cannot be reached, or did not respond in time.
        :raises RuntimeFailure: the runtime returned an error.
        """
        ...

    async def remove_sandbox(self, sandbox_id: str) -> None:
        """Remove a stopped sandbox with its containers; unknown IDs are ignored.

        :param sandbox_id: ID of the sandbox.
        :raises RuntimeUnavailable: the runtime cannot be reached, or did not respond in time.
        :raises RuntimeFailure: the runtime returned an error.
        """
        ...

    async def list_sandboxes(self, pod_uid: str = "") -> Sequence[SandboxInfo]:
        """Return all sandboxes, or those of one pod; returns the same object while nothing changes.

        :param pod_uid: UID of a pod; empty for all pods.
        :raises RuntimeUnavailable: the runtime cannot be reached, or did not respond in time.
        :raises RuntimeFailure: the runtime returned an error.
        """
        ...

    async def sandbox_status(self, sandbox_id: str) -> SandboxStatus:
        """Return the status of a sandbox.

        :param sandbox_id: ID of the sandbox.
        :raises NotFound: the sandbox does not exist.
        :raises RuntimeUnavailable: the runtime cannot be reached, or did not respond in time.
        :raises RuntimeFailure: the runtime returned an error.
        """
        ...

    async def create_container(self, sandbox_id: str, config: ContainerConfig, sandbox: SandboxConfig) -> str:
        """Create a container in a sandbox; return its ID.

        :param sandbox_id: ID of the sandbox.
        :param config: the configuration of the container.
        :param sandbox: the configuration that the sandbox was created from.
        :raises NotFound: the sandbox or image does not exist.
        :raises RuntimeUnavailable: the runtime cannot be reached, or did not respond in time.
        :raises RuntimeFailure: the runtime returned an error.
        """
        ...

    async def start_container(self, container_id: str) -> None:
        """Start a created container.

        :param container_id: ID of the container.
        :raises NotFound: the container does not exist.
        :raises RuntimeUnavailable: the runtime cannot be reached, or did not respond in time.
        :raises RuntimeFailure: the runtime returned an error.
        """
        ...

    async def stop_container(self, container_id: str, grace_seconds: int) -> None:
        """Send the stop signal, and SIGKILL *grace_seconds* later; unknown IDs are ignored.

        :param container_id: ID of the container.
        :param grace_seconds: time between stop signal and SIGKILL, in seconds.
        :raises RuntimeUnavailable: the runtime cannot be reached, or did not respond in time.
        :raises RuntimeFailure: the runtime returned an error.
        """
        ...

    async def remove_container(self, container_id: str) -> None:
        """Remove a container that is not running; unknown IDs are ignored.

        :param container_id: ID of the container.
        :raises RuntimeUnavailable: the runtime cannot be reached, or did not respond in time.
        :raises RuntimeFailure: the runtime returned an error.
        """
        ...

    async def list_containers(self, pod_uid: str = "") -> Sequence[ContainerInfo]:
        """Return all containers, or those of one pod; returns the same object while nothing changes.

        :param pod_uid: UID of a pod; empty for all pods.
        :raises RuntimeUnavailable: the runtime cannot be reached, or did not respond in time.
        :raises RuntimeFailure: the runtime returned an error.
        """
        ...

    async def container_status(self, container_id: str) -> RuntimeContainerStatus:
        """Return the status of a container.

        :param container_id: ID of the container.
        :raises NotFound: the container does not exist.
        :raises RuntimeUnavailable: the runtime cannot be reached, or did not respond in time.
        :raises RuntimeFailure: the runtime returned an error.
        """
        ...

    async def update_resources(self, container_id: str, resources: LinuxResources) -> None:
        """Change the resource limits of a running container.

        :param container_id: ID of the container.
        :param resources: the new limits; unset fields stay unchanged.
        :raises NotFound: the container does not exist.
        :raises RuntimeUnavailable: the runtime cannot be reached, or did not respond in time.
        :raises RuntimeFailure: the runtime returned an error.
        """
        ...

    async def reopen_log(self, container_id: str) -> None:
        """Reopen the log file of a running container, after log rotation.

        :param container_id: ID of the container.
        :raises NotFound: the container does not exist.
        :raises RuntimeUnavailable: the runtime cannot be reached, or did not respond in time.
        :raises RuntimeFailure: the runtime returned an error.
        """
        ...

    async def exec_sync(self, container_id: str, command: Sequence[str], timeout_seconds: float) -> ExecResult:
        """Run *command* and return its output; a timeout of 0 means no timeout.

        :param container_id: ID of a running container.
        :param command: the command with its arguments.
        :param timeout_seconds: time limit in seconds.
        :raises TimeoutError: the command did not exit in time.
        :raises NotFound: the container does not exist.
        :raises RuntimeUnavailable: the runtime cannot be reached, or did not respond in time.
        :raises RuntimeFailure: the runtime returned an error.
        """
        ...

    async def exec_url(
        self, container_id: str, command: Sequence[str], *, stdin: bool, stdout: bool, stderr: bool, tty: bool
    ) -> str:
        """Return the URL of the runtime's streaming endpoint for this exec.

        :param container_id: ID of a running container.
        :param command: the command with its arguments.
        :param stdin: attach standard input.
        :param stdout: attach standard output.
        :param stderr: attach standard error; not with *tty*.
        :param tty: allocate a terminal.
        :raises NotFound: the container does not exist.
        :raises RuntimeUnavailable: the runtime cannot be reached, or did not respond in time.
        :raises RuntimeFailure: the runtime returned an error.
        """
        ...

    async def attach_url(self, container_id: str, *, stdin: bool, stdout: bool, stderr: bool, tty: bool) -> str:
        """Return the URL of the runtime's streaming endpoint to attach to the container's process.

        :param container_id: ID of a running container.
        :param stdin: attach standard input.
        :param stdout: attach standard output.
        :param stderr: attach standard error; not with *tty*.
        :param tty: the container has a terminal.
        :raises NotFound: the container does not exist.
        :raises RuntimeUnavailable: the runtime cannot be reached, or did not respond in time.
        :raises RuntimeFailure: the runtime returned an error.
        """
        ...

    async def port_forward_url(self, sandbox_id: str, ports: Sequence[int]) -> str:
        """Return the URL of the runtime's streaming endpoint to forward ports.

        :param sandbox_id: ID of a ready sandbox.
        :param ports: ports in the sandbox.
        :raises NotFound: the sandbox does not exist.
        :raises RuntimeUnavailable: the runtime cannot be reached, or did not respond in time.
        :raises RuntimeFailure: the runtime returned an error.
        """
        ...

    async def container_stats(self) -> Sequence[ContainerStats]:
        """Return the usage of every running container.

        :raises RuntimeUnavailable: the runtime cannot be reached, or did not respond in time.
        :raises RuntimeFailure: the runtime returned an error.
        """
        ...

    async def sandbox_stats(self) -> Sequence[SandboxStats]:
        """Return the usage of every pod as measured by the runtime.

        :raises NotImplementedError: the runtime does not support the call.
        :raises RuntimeUnavailable: the runtime cannot be reached, or did not respond in time.
        :raises RuntimeFailure: the runtime returned an error.
        """
        ...

    def events(self) -> AsyncIterator[RuntimeEvent] | None:
        """Return the runtime's event stream, or ``None`` if it has none.

        Iterating raises :class:`NotImplementedError` immediately if the runtime does not support the call.
        """
        ...


@runtime_checkable
class RuntimeInfoProvider(Protocol):
    """A runtime that also reports its configuration."""

    async def info(self) -> Mapping[str, str]:
        """Return runtime-specific texts by name, such as ``config`` for containerd.

        :raises RuntimeUnavailable: the runtime cannot be reached, or did not respond in time.
        :raises RuntimeFailure: the runtime returned an error.
        """
        ...


@runtime_checkable
class CheckpointingRuntime(Protocol):
    """A runtime that can write a running container's state to disk (spec: gate.ContainerCheckpoint)."""

    async def checkpoint_container(self, container_id: str, location: str, timeout_seconds: int) -> None:
        """Write the state to the file *location*; a timeout of 0 selects the runtime's default.

        :param container_id: ID of a running container.
        :param location: path of the archive to create.
        :param timeout_seconds: time limit in seconds.
        :raises NotImplementedError: the runtime does not support the call, or lacks a prerequisite.
        :raises NotFound: the container does not exist.
        :raises RuntimeUnavailable: the runtime cannot be reached, or did not respond in time.
        :raises RuntimeFailure: the runtime returned an error.
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
        """All names of the image: ID, bare digest, tags, repositories with digest."""
        return frozenset((self.id, self.id.removeprefix("sha256:"), *self.repo_tags, *self.repo_digests))


@dataclass(frozen=True, slots=True)
class Credentials:
    """Credentials of a registry; never displayed."""

    username: str = field(repr=False, default="")
    password: str = field(repr=False, default="")
    source: str = ""
    """Origin: the name of a pull secret or plugin."""


@dataclass(frozen=True, slots=True)
class FilesystemUsage:
    """Usage of an image file system; the timestamp is in epoch nanoseconds."""

    mountpoint: str
    used_bytes: int
    inodes_used: int
    timestamp: int = 0


class ImageService(Protocol):
    """The runtime's image store."""

    async def list_images(self) -> Sequence[Image]:
        """Return all images in the store.

        :raises RuntimeUnavailable: the runtime cannot be reached, or did not respond in time.
        :raises RuntimeFailure: the runtime returned an error.
        """
        ...

    async def image_status(self, image: str) -> Image | None:
        """Return the image, or ``None`` if it is not in the store.

        :param image: name or ID of the image.
        :raises RuntimeUnavailable: the runtime cannot be reached, or did not respond in time.
        :raises RuntimeFailure: the runtime returned an error.
        """
        ...

    async def pull_image(
        self, image: str, credentials: Credentials | None = None, sandbox: SandboxConfig | None = None
    ) -> str:
        """Pull *image* and return its reference in the store; the call has no deadline.

        :param image: name of the image, with tag or digest.
        :param credentials: credentials of the registry; ``None`` pulls anonymously.
        :param sandbox: the sandbox for which to pull, if the runtime distinguishes them.
        :raises RuntimeUnavailable: the runtime cannot be reached, or did not respond in time.
        :raises RuntimeFailure: the runtime returned an error.
        """
        ...

    async def remove_image(self, image: str) -> None:
        """Remove an image with all its names; unknown images are ignored.

        :param image: name or ID of the image.
        :raises RuntimeUnavailable: the runtime cannot be reached, or did not respond in time.
        :raises RuntimeFailure: the runtime returned an error.
        """
        ...

    async def filesystem_usage(self) -> Sequence[FilesystemUsage]:
        """Return the usage of the image file systems.

        :raises RuntimeUnavailable: the runtime cannot be reached, or did not respond in time.
        :raises RuntimeFailure: the runtime returned an error.
        """
        ...


@dataclass(frozen=True, slots=True)
class Transfer:
    """A layer or other blob of an image that is being downloaded."""

    ref: str
    """Identifier, such as the digest of a layer."""
    received_bytes: int
    total_bytes: int
    """0 if unknown."""


@runtime_checkable
class ProgressReportingImageService(ImageService, Protocol):
    """An image service that also reports the progress of pulls."""

    async def transfers(self) -> Sequence[Transfer] | None:
        """Return the transfers in progress of all pulls; ``None`` if the runtime does not report them.

        :raises RuntimeUnavailable: the runtime cannot be reached, or did not respond in time.
        :raises RuntimeFailure: the runtime returned an error.
        """
        ...

"""Contracts of the container runtime: sandboxes, containers and images.

The bundled plugin implements them with CRI v1 over gRPC; other plugins may use any protocol. Every call has a deadline
and raises :class:`~nodeagent.errors.RuntimeUnavailable` if the runtime cannot be reached or is too slow,
:class:`~nodeagent.errors.NotFound` if the object does not exist, otherwise
:class:`~nodeagent.errors.RuntimeFailure`. Timestamps are nanoseconds since the epoch, as reported by the runtime.
spec: config.containerRuntimeEndpoint, config.imageServiceEndpoint, config.runtimeRequestTimeout
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Protocol, runtime_checkable

from nodeagent.base.structs import Struct
from nodeagent.contracts.image_service import (
    CredentialOwner,
    Credentials,
    FilesystemUsage,
    Image,
    ImageService,
    OwnerKind,
    ProgressReportingImageService,
    Transfer,
)
from nodeagent.contracts.runtime_config import (
    ContainerConfig,
    ContainerSecurity,
    Device,
    DnsConfig,
    IdMapping,
    ImageMount,
    LinuxResources,
    Mount,
    MountPropagation,
    NamespaceMode,
    Namespaces,
    PortMapping,
    ProfileType,
    SandboxConfig,
    SandboxSecurity,
    SecurityProfile,
    SeLinux,
    SupplementalGroupsPolicy,
    UserNamespace,
)
from nodeagent.contracts.runtime_state import (
    ANNOTATION_DELETION_GRACE,
    ANNOTATION_DEVICES,
    ANNOTATION_GRACE,
    ANNOTATION_HASH,
    ANNOTATION_MESSAGE_PATH,
    ANNOTATION_MESSAGE_POLICY,
    ANNOTATION_PORTS,
    ANNOTATION_PRE_STOP,
    ANNOTATION_RESTART_COUNT,
    LABEL_CONTAINER_NAME,
    LABEL_POD_NAME,
    LABEL_POD_NAMESPACE,
    LABEL_POD_UID,
    ContainerInfo,
    ContainerState,
    ContainerUser,
    RuntimeContainerStatus,
    RuntimeEvent,
    RuntimeEventType,
    RuntimePod,
    SandboxInfo,
    SandboxStatus,
)
from nodeagent.contracts.runtime_stats import (
    ContainerStats,
    SandboxStats,
)

__all__ = [
    "ANNOTATION_DELETION_GRACE",
    "ANNOTATION_DEVICES",
    "ANNOTATION_GRACE",
    "ANNOTATION_HASH",
    "ANNOTATION_MESSAGE_PATH",
    "ANNOTATION_MESSAGE_POLICY",
    "ANNOTATION_PORTS",
    "ANNOTATION_PRE_STOP",
    "ANNOTATION_RESTART_COUNT",
    "LABEL_CONTAINER_NAME",
    "LABEL_POD_NAME",
    "LABEL_POD_NAMESPACE",
    "LABEL_POD_UID",
    "CheckpointingRuntime",
    "ContainerConfig",
    "ContainerInfo",
    "ContainerRuntime",
    "ContainerSecurity",
    "ContainerState",
    "ContainerStats",
    "ContainerUser",
    "CredentialOwner",
    "Credentials",
    "Device",
    "DnsConfig",
    "ExecResult",
    "FilesystemUsage",
    "IdMapping",
    "Image",
    "ImageMount",
    "ImageService",
    "LinuxResources",
    "Mount",
    "MountPropagation",
    "NamespaceMode",
    "Namespaces",
    "OwnerKind",
    "PortMapping",
    "ProfileType",
    "ProgressReportingImageService",
    "RuntimeCondition",
    "RuntimeContainerStatus",
    "RuntimeEvent",
    "RuntimeEventType",
    "RuntimeFeatures",
    "RuntimeHandler",
    "RuntimeInfoProvider",
    "RuntimePod",
    "RuntimeStatus",
    "RuntimeVersion",
    "SandboxConfig",
    "SandboxInfo",
    "SandboxResizingRuntime",
    "SandboxSecurity",
    "SandboxStats",
    "SandboxStatus",
    "SeLinux",
    "SecurityProfile",
    "SupplementalGroupsPolicy",
    "Transfer",
    "UserNamespace",
]


class RuntimeVersion(Struct, frozen=True):
    """Name and versions of the runtime."""

    name: str
    version: str
    api_version: str


class RuntimeCondition(Struct, frozen=True):
    """A condition of the runtime, such as ``NetworkReady``."""

    type: str
    status: bool
    reason: str = ""
    message: str = ""


class RuntimeHandler(Struct, frozen=True):
    """A handler of runtime classes and its features; the default handler has an empty name."""

    name: str
    recursive_read_only_mounts: bool = False
    user_namespaces: bool = False


class RuntimeFeatures(Struct, frozen=True):
    """Features of the runtime that do not depend on the handler."""

    supplemental_groups_policy: bool = False
    user_namespaces_host_network: bool = False


class RuntimeStatus(Struct, frozen=True):
    """Conditions and features of the runtime."""

    conditions: Sequence[RuntimeCondition] = ()
    handlers: Sequence[RuntimeHandler] = ()
    """Empty if the runtime does not report its handlers."""
    features: RuntimeFeatures | None = None
    """``None`` if the runtime does not report its features."""
    image_volumes: bool = False
    """True if the runtime supports :attr:`~nodeagent.contracts.runtime_config.Mount.image`."""

    def handler(self, name: str) -> RuntimeHandler:
        """Return the handler called *name*; one without features if the runtime does not report it."""
        return next((handler for handler in self.handlers if handler.name == name), RuntimeHandler(name))


class ExecResult(Struct, frozen=True):
    """Result of a command."""

    exit_code: int
    stdout: bytes = b""
    stderr: bytes = b""


class ContainerRuntime(Protocol):
    """Runs sandboxes and containers. Every call can be retried safely after a failure."""

    async def version(self) -> RuntimeVersion:
        """Return the name and versions of the runtime.

        :raises RuntimeUnavailable: the runtime cannot be reached, or did not respond in time.
        :raises RuntimeFailure: the runtime returned an error.
        """
        ...

    async def status(self) -> RuntimeStatus:
        """Return the runtime's conditions and features.

        ``RuntimeReady`` and ``NetworkReady`` are always among the conditions.

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
        :raises RuntimeTimeout: the runtime did not respond in time, and the signal may have been sent.
        :raises RuntimeUnavailable: the runtime cannot be reached.
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
class NotifyingRuntime(Protocol):
    """A runtime that notifies of changed containers, so that it need not be listed every second."""

    def changes(self) -> AsyncIterator[None]:
        """Yield when containers or sandboxes started, ended or were removed; do not end while the connection lasts.

        Each value is a hint to list them: it may arrive before the change is listed, and stand for several changes.
        Iterating raises :class:`NotImplementedError` immediately if the runtime does not support the call.

        :raises NotImplementedError: the runtime does not support the call.
        :raises RuntimeUnavailable: the runtime cannot be reached, or the connection ended.
        :raises RuntimeFailure: the runtime returned an error.
        """
        ...


@runtime_checkable
class SandboxResizingRuntime(Protocol):
    """A runtime that is notified of changed resources of a pod (spec: gate.InPlacePodVerticalScaling)."""

    async def update_sandbox_resources(
        self, sandbox_id: str, overhead: LinuxResources | None, resources: LinuxResources
    ) -> None:
        """Notify the runtime of the resources that the pod's cgroup is about to have.

        :param sandbox_id: ID of a ready sandbox.
        :param overhead: resources of the pod overhead; ``None`` if there is none.
        :param resources: resources of the pod's containers together.
        :raises NotImplementedError: the runtime does not support the call.
        :raises NotFound: the sandbox does not exist.
        :raises RuntimeUnavailable: the runtime cannot be reached, or did not respond in time.
        :raises RuntimeFailure: the runtime rejects the resources.
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

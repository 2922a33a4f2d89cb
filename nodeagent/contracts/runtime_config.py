"""Configuration of sandboxes and containers, as passed to the container runtime."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import IntEnum

from msgspec import field

from nodeagent.base.structs import Struct


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


class SupplementalGroupsPolicy(IntEnum):
    """Origin of a container's supplementary groups; the numbers are CRI's."""

    MERGE = 0
    """Requested groups and those of the user in the image."""
    STRICT = 1
    """Only requested groups."""


class ProfileType(IntEnum):
    """Type of a security profile; the numbers are CRI's."""

    RUNTIME_DEFAULT = 0
    UNCONFINED = 1
    LOCALHOST = 2


class SecurityProfile(Struct, frozen=True):
    """A seccomp or AppArmor profile; ``path`` is the file or profile name of a localhost profile."""

    type: ProfileType = ProfileType.RUNTIME_DEFAULT
    path: str = ""


class SeLinux(Struct, frozen=True):
    """SELinux label of a process; empty parts use the default."""

    user: str = ""
    role: str = ""
    type: str = ""
    level: str = ""


class IdMapping(Struct, frozen=True):
    """A range of user or group IDs: *container_id* in the container is *host_id* on the host."""

    host_id: int
    container_id: int
    length: int


class UserNamespace(Struct, frozen=True):
    """User namespace of a pod."""

    uids: Sequence[IdMapping]
    gids: Sequence[IdMapping]


class Namespaces(Struct, frozen=True):
    """Namespaces of a sandbox or container."""

    network: NamespaceMode = NamespaceMode.POD
    pid: NamespaceMode = NamespaceMode.CONTAINER
    ipc: NamespaceMode = NamespaceMode.POD
    target_id: str = ""
    user: UserNamespace | None = None
    """User namespace of the pod; ``None`` uses that of the node."""


class LinuxResources(Struct, frozen=True):
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

    @property
    def may_swap(self) -> bool:
        """True if the processes may use swap: on cgroup v2 by its own limit, on v1 by one above that of memory."""
        if "memory.swap.max" in self.unified:
            return self.unified["memory.swap.max"] != "0"
        return self.memory_swap_limit_bytes not in (0, self.memory_limit_bytes)


class PortMapping(Struct, frozen=True):
    """A host port that is forwarded to a port of the sandbox."""

    container_port: int
    host_port: int = 0
    protocol: str = "TCP"
    host_ip: str = ""


class DnsConfig(Struct, frozen=True):
    """Contents of ``resolv.conf``."""

    servers: Sequence[str] = ()
    searches: Sequence[str] = ()
    options: Sequence[str] = ()


class SandboxSecurity(Struct, frozen=True):
    """Security context of a sandbox."""

    namespaces: Namespaces = Namespaces()
    selinux: SeLinux | None = None
    run_as_user: int | None = None
    run_as_group: int | None = None
    readonly_rootfs: bool = False
    supplemental_groups: Sequence[int] = ()
    privileged: bool = False
    seccomp: SecurityProfile = SecurityProfile()
    supplemental_groups_policy: SupplementalGroupsPolicy = SupplementalGroupsPolicy.MERGE


class SandboxConfig(Struct, frozen=True):
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


class ImageMount(Struct, frozen=True):
    """Content of an image that is mounted read-only."""

    image: str
    """The image reference in the runtime's store."""
    user_image: str = ""
    """The image as specified in the pod."""
    subpath: str = ""
    """Path in the image, relative to its root; empty for the complete content."""


class Mount(Struct, frozen=True):
    """A bind mount from the host, or the content of an image."""

    container_path: str
    host_path: str
    """Empty for an image."""
    readonly: bool = False
    selinux_relabel: bool = False
    propagation: MountPropagation = MountPropagation.PRIVATE
    recursive_readonly: bool = False
    """Mounts below a read-only mount are read-only too."""
    image: ImageMount | None = None
    uids: Sequence[IdMapping] = ()
    """Mapping of the owners of files, for pods with a user namespace."""
    gids: Sequence[IdMapping] = ()


class Device(Struct, frozen=True):
    """A device of the host in a container."""

    container_path: str
    host_path: str
    permissions: str = "mrw"


class ContainerSecurity(Struct, frozen=True):
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
    supplemental_groups_policy: SupplementalGroupsPolicy = SupplementalGroupsPolicy.MERGE


class ContainerConfig(Struct, frozen=True):
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
    cdi_devices: Sequence[str] = ()
    """Qualified CDI names, which the runtime resolves."""
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    log_path: str = ""
    """Relative to the sandbox's log directory."""
    stdin: bool = False
    stdin_once: bool = False
    tty: bool = False
    stop_signal: str = ""
    """Name of the stop signal in the API, such as ``SIGRTMIN+1``; empty for that of the image."""
    resources: LinuxResources = LinuxResources()
    security: ContainerSecurity = ContainerSecurity()

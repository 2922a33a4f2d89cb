"""Security contexts of pod and container in the runtime's configuration. No I/O."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from nodeagent.contracts.runtime import (
    ContainerSecurity,
    Image,
    NamespaceMode,
    Namespaces,
    ProfileType,
    SandboxSecurity,
    SecurityProfile,
    SeLinux,
    SupplementalGroupsPolicy,
    UserNamespace,
)
from nodeagent.errors import ContainerError
from nodeagent.model import apparmor
from nodeagent.model.apparmor import apparmor_profile
from nodeagent.model.pod import (
    Container,
    Pod,
    PodSecurityContext,
    SeccompProfile,
    SecurityContext,
    SeLinuxOptions,
)

MASKED_PATHS = (
    "/proc/asound",
    "/proc/acpi",
    "/proc/kcore",
    "/proc/keys",
    "/proc/latency_stats",
    "/proc/timer_list",
    "/proc/timer_stats",
    "/proc/sched_debug",
    "/proc/scsi",
    "/sys/devices/virtual/powercap",
    "/sys/firmware",
)
MAX_USER_ID = (1 << 31) - 1
READONLY_PATHS = ("/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger")
_CONFIG_ERROR = "CreateContainerConfigError"
_NO_POD_CONTEXT = PodSecurityContext()
_NO_CONTEXT = SecurityContext()


def pod_namespaces(pod: Pod, user: UserNamespace | None = None) -> Namespaces:
    """Return the namespace modes of the pod's sandbox and containers.

    :param user: user namespace of the pod; ``None`` uses that of the node.
    """
    spec = pod.spec
    if spec.host_pid:
        pid = NamespaceMode.NODE
    elif spec.share_process_namespace:
        pid = NamespaceMode.POD
    else:
        pid = NamespaceMode.CONTAINER
    return Namespaces(
        network=NamespaceMode.NODE if spec.host_network else NamespaceMode.POD,
        pid=pid,
        ipc=NamespaceMode.NODE if spec.host_ipc else NamespaceMode.POD,
        user=user,
    )


def sandbox_security(pod: Pod, user_namespace: UserNamespace | None = None) -> SandboxSecurity:
    """Return the security settings of the sandbox, which is privileged if any container is."""
    own = pod.spec.security_context or _NO_POD_CONTEXT
    return SandboxSecurity(
        namespaces=pod_namespaces(pod, user_namespace),
        selinux=_selinux(own.se_linux_options),
        run_as_user=own.run_as_user,
        run_as_group=own.run_as_group,
        supplemental_groups=supplemental_groups(own),
        privileged=any(c.security_context is not None and c.security_context.privileged for _, c in pod.containers()),
        seccomp=SecurityProfile(ProfileType.RUNTIME_DEFAULT),
        supplemental_groups_policy=groups_policy(own),
    )


def container_security(
    pod: Pod,
    container: Container,
    image: Image,
    *,
    seccomp_default: bool,
    seccomp_root: Path,
    unmask_proc: bool = False,
    target_id: str = "",
    user_namespace: UserNamespace | None = None,
) -> ContainerSecurity:
    """Return the security settings of *container*, which take precedence over those of the pod.

    :param seccomp_default: use the runtime's profile for containers without one (spec: config.seccompDefault).
    :param seccomp_root: directory of localhost profiles.
    :param unmask_proc: allow ``procMount: Unmasked``.
    :param user_namespace: user namespace of the pod; ``None`` uses that of the node.
    :param target_id: container whose process namespace an ephemeral container joins.
    :raises ContainerError: the settings contradict each other or the image.
    """
    shared = pod.spec.security_context or _NO_POD_CONTEXT
    own = container.security_context or _NO_CONTEXT
    user = _first(own.run_as_user, shared.run_as_user)
    username = ""
    if _first(own.run_as_non_root, shared.run_as_non_root):
        _check_non_root(user, image)
    if user is None:
        user, username = image.uid, image.username if image.uid is None else ""
    namespaces = pod_namespaces(pod, user_namespace)
    if target_id:
        namespaces = replace(namespaces, pid=NamespaceMode.TARGET, target_id=target_id)
    capabilities = own.capabilities
    masked = not (unmask_proc and own.proc_mount == "Unmasked")
    return ContainerSecurity(
        capabilities_add=tuple(capabilities.add or ()) if capabilities else (),
        capabilities_drop=tuple(capabilities.drop or ()) if capabilities else (),
        privileged=bool(own.privileged),
        namespaces=namespaces,
        selinux=_selinux(own.se_linux_options or shared.se_linux_options),
        run_as_user=user,
        run_as_group=_first(own.run_as_group, shared.run_as_group),
        run_as_username=username,
        readonly_rootfs=bool(own.read_only_root_filesystem),
        supplemental_groups=supplemental_groups(shared),
        supplemental_groups_policy=groups_policy(shared),
        no_new_privs=own.allow_privilege_escalation is False,
        masked_paths=MASKED_PATHS if masked else (),
        readonly_paths=READONLY_PATHS if masked else (),
        seccomp=_seccomp(own.seccomp_profile or shared.seccomp_profile, seccomp_default, seccomp_root),
        apparmor=_apparmor(pod, container),
    )


def supplemental_groups(context: PodSecurityContext) -> tuple[int, ...]:
    """Return the supplemental groups of a pod's processes, fsGroup first."""
    own = tuple(context.supplemental_groups or ())
    return own if context.fs_group is None else (context.fs_group, *own)


def groups_policy(context: PodSecurityContext) -> SupplementalGroupsPolicy:
    """Return whether the processes of a pod also get the groups of the user in the image."""
    strict = context.supplemental_groups_policy == "Strict"
    return SupplementalGroupsPolicy.STRICT if strict else SupplementalGroupsPolicy.MERGE


def _check_non_root(user: int | None, image: Image) -> None:
    if user == 0:
        problem = "container's runAsUser breaks non-root policy"
    elif user is not None:
        return
    elif image.username and image.uid is None:
        problem = (
            f"container has runAsNonRoot and image has non-numeric user ({image.username}), "
            "cannot verify user is non-root"
        )
    elif not image.uid:
        problem = "container has runAsNonRoot and image will run as root"
    elif image.uid > MAX_USER_ID:  # Some runtimes truncate it to 32 bits.
        problem = f"container has runAsNonRoot and image has an invalid user ({image.uid})"
    else:
        return
    raise ContainerError(problem, reason=_CONFIG_ERROR)


def _seccomp(profile: SeccompProfile | None, default: bool, root: Path) -> SecurityProfile:
    if profile is None:
        return SecurityProfile(ProfileType.RUNTIME_DEFAULT if default else ProfileType.UNCONFINED)
    match profile.type:
        case "RuntimeDefault":
            return SecurityProfile(ProfileType.RUNTIME_DEFAULT)
        case "Localhost":
            name = profile.localhost_profile or ""
            if not name:
                raise ContainerError(
                    "localhostProfile must be set if seccompProfile type is Localhost.", reason=_CONFIG_ERROR
                )
            if Path(name).is_absolute() or ".." in Path(name).parts:
                raise ContainerError(
                    f'localhostProfile "{name}" must be a path below the profile directory', reason=_CONFIG_ERROR
                )
            return SecurityProfile(ProfileType.LOCALHOST, str(root / name))
        case _:
            return SecurityProfile(ProfileType.UNCONFINED)


def _apparmor(pod: Pod, container: Container) -> SecurityProfile | None:
    """Return the profile of *container*, ``None`` for the default of the runtime.

    :raises ContainerError: the profile is invalid; the container must not run without it.
    """
    profile = apparmor_profile(pod, container)
    if profile is None:
        return None
    match profile.type:
        case apparmor.RUNTIME_DEFAULT:
            return SecurityProfile(ProfileType.RUNTIME_DEFAULT)
        case apparmor.UNCONFINED:
            return SecurityProfile(ProfileType.UNCONFINED)
        case apparmor.LOCALHOST if profile.localhost_profile:
            return SecurityProfile(ProfileType.LOCALHOST, profile.localhost_profile)
    raise ContainerError(f"invalid AppArmor profile of type {profile.type!r}", reason=_CONFIG_ERROR)


def _selinux(options: SeLinuxOptions | None) -> SeLinux | None:
    return SeLinux(options.user, options.role, options.type, options.level) if options is not None else None


def _first(own: int | bool | None, shared: int | bool | None) -> int | None:
    return shared if own is None else own

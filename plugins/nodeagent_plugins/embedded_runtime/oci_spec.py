"""Conversion of CRI container configurations to OCI runtime configurations."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec import field

from nodeagent.base.cdi.spec import ContainerEdits
from nodeagent.base.criproto import api_pb2 as cri
from nodeagent.base.structs import Struct
from nodeagent_plugins.embedded_runtime.capabilities import compute_capabilities
from nodeagent_plugins.embedded_runtime.cdi_devices import apply_edits
from nodeagent_plugins.embedded_runtime.devices import DeviceSetup, add_devices
from nodeagent_plugins.embedded_runtime.errors import InvalidArgument
from nodeagent_plugins.embedded_runtime.host import Host
from nodeagent_plugins.embedded_runtime.id_mappings import IdMappings
from nodeagent_plugins.embedded_runtime.mount_sources import is_image
from nodeagent_plugins.embedded_runtime.users import User

DEFAULT_PATH = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
SPEC_VERSION = "1.0.2"
_PROPAGATION = {
    cri.PROPAGATION_PRIVATE: "rprivate",
    cri.PROPAGATION_HOST_TO_CONTAINER: "rslave",
    cri.PROPAGATION_BIDIRECTIONAL: "rshared",
}

Spec = dict[str, Any]


class ContainerEnvironment(Struct, frozen=True):
    """Environment of a container: image, sandbox and host."""

    host: Host
    user: User
    image_config: Mapping[str, Any] = field(default_factory=dict)
    """The ``config`` section of the image configuration."""
    hostname: str = ""
    namespaces: Mapping[str, str] = field(default_factory=dict)
    """Namespaces by kind: a path to join, or empty for a new one; missing kinds are those of the node."""
    files: Mapping[str, str] = field(default_factory=dict)
    """Files of the sandbox by mount path; mounts of the container take precedence."""
    users: IdMappings | None = None
    """Mappings of the pod's user namespace."""
    sources: Sequence[str] = ()
    """Path to bind-mount for each mount of the container; without any, their host paths."""
    lent: Sequence[str] = ()
    """Paths of the node that are part of the image, mounted read-only at the same path."""
    cgroups_path: str = ""
    seccomp: Mapping[str, Any] | None = None
    apparmor: str = ""
    """Name of an AppArmor profile; empty for unconfined."""
    edits: ContainerEdits | None = None
    """Changes for the CDI devices of the container."""
    map_owners: Callable[[str], str] = str
    """Returns the path to bind-mount for a path of the host that a CDI device needs."""
    directory: Path | None = None
    """Directory of the container; required with a user namespace."""


def make_spec(config: cri.ContainerConfig, around: ContainerEnvironment) -> Spec:
    """Return the OCI configuration of the container *config*.

    :raises InvalidArgument: a setting is invalid.
    """
    security, host = config.linux.security_context, around.host
    requested = security.capabilities
    capabilities = list(
        compute_capabilities(
            requested.add_capabilities,
            requested.drop_capabilities,
            privileged=security.privileged,
            held=host.capabilities,
        )
    )
    effective = capabilities if around.user.uid == 0 else []
    ambient = [f"CAP_{name.upper().removeprefix('CAP_')}" for name in requested.add_ambient_capabilities]
    process: Spec = {
        "terminal": config.tty,
        "user": {"uid": around.user.uid, "gid": around.user.gid, "additionalGids": list(around.user.groups)},
        "args": compute_args(config, around.image_config),
        "env": compute_environment(config, around),
        "cwd": config.working_dir or around.image_config.get("WorkingDir") or "/",
        "capabilities": {
            "bounding": capabilities,
            "effective": sorted({*effective, *ambient}),
            "permitted": sorted({*effective, *ambient}),
            "inheritable": ambient,
            "ambient": ambient,
        },
        "noNewPrivileges": security.no_new_privs,
        "oomScoreAdj": max(config.linux.resources.oom_score_adj, host.oom_score_adj),
    }
    if around.apparmor:
        process["apparmorProfile"] = around.apparmor
    linux: Spec = {
        "namespaces": [{"type": kind, **({"path": path} if path else {})} for kind, path in around.namespaces.items()],
        "resources": compute_resources(config.linux.resources, host.cgroup_version) if host.cgroup_version else {},
    }
    if around.users is not None:
        linux |= around.users.spec()
    if around.cgroups_path:
        linux["cgroupsPath"] = around.cgroups_path
    if not security.privileged:
        linux["maskedPaths"], linux["readonlyPaths"] = list(security.masked_paths), list(security.readonly_paths)
    if around.seccomp is not None:
        linux["seccomp"] = around.seccomp
    shared = {mount.propagation for mount in config.mounts}
    if cri.PROPAGATION_BIDIRECTIONAL in shared:
        linux["rootfsPropagation"] = "rshared"
    elif cri.PROPAGATION_HOST_TO_CONTAINER in shared:
        linux["rootfsPropagation"] = "rslave"
    spec: Spec = {
        "ociVersion": SPEC_VERSION,
        "process": process,
        "root": {"path": "rootfs", "readonly": security.readonly_rootfs},
        "mounts": compute_mounts(config, around),
        "annotations": dict(config.annotations),
        "linux": linux,
    }
    if around.hostname and around.namespaces.get("uts") == "":
        spec["hostname"] = around.hostname
    setup = DeviceSetup(host, around.users, around.directory)
    add_devices(spec, config, setup)
    if around.edits is not None:
        apply_edits(spec, around.edits, setup, around.map_owners)
    return spec


def compute_args(config: cri.ContainerConfig, image: Mapping[str, Any]) -> list[str]:
    """Return the command line: a command replaces the image's entry point and arguments, arguments only the latter.

    :raises InvalidArgument: neither specifies a command.
    """
    args = list(config.args)
    if not config.command:
        args = [*(image.get("Entrypoint") or ()), *(args or image.get("Cmd") or ())]
    args = [*config.command, *args]
    if not args:
        raise InvalidArgument("neither the container nor its image specifies a command")
    return args


def compute_environment(config: cri.ContainerConfig, around: ContainerEnvironment) -> list[str]:
    """Return the environment: the image's, then the container's; of two values of one name the later one."""
    entries = [DEFAULT_PATH, f"HOSTNAME={around.hostname}", f"HOME={around.user.home}"]
    if config.tty:
        entries.append("TERM=xterm")
    entries += around.image_config.get("Env") or ()
    entries += (f"{env.key}={env.value}" for env in config.envs)
    return list({entry.partition("=")[0]: entry for entry in entries}.values())


def compute_resources(requested: cri.LinuxContainerResources, cgroup_version: int) -> Spec:
    """Return the limits *requested*; a zero is "not given"."""
    cpu: Spec = {"shares": requested.cpu_shares, "quota": requested.cpu_quota, "period": requested.cpu_period}
    cpu |= {"cpus": requested.cpuset_cpus, "mems": requested.cpuset_mems}
    memory = {"limit": requested.memory_limit_in_bytes, "swap": requested.memory_swap_limit_in_bytes}
    limits: Spec = {
        "cpu": {name: value for name, value in cpu.items() if value},
        "memory": {name: value for name, value in memory.items() if value},
        "hugepageLimits": [{"pageSize": h.page_size, "limit": h.limit} for h in requested.hugepage_limits if h.limit],
        "unified": dict(requested.unified) if cgroup_version == 2 else {},
    }
    return {name: value for name, value in limits.items() if value}


def compute_mounts(config: cri.ContainerConfig, around: ContainerEnvironment) -> list[Spec]:
    """Return all mounts, in the order to make them."""
    security = config.linux.security_context
    writable = [] if security.privileged else ["ro"]
    safe = ["nosuid", "noexec", "nodev"]
    group = [] if around.host.remapped else ["gid=5"]
    mounts = [
        _mount("/proc", "proc", "proc", safe),
        _mount("/dev", "tmpfs", "tmpfs", ["nosuid", "strictatime", "mode=755", "size=65536k"]),
        _mount(
            "/dev/pts", "devpts", "devpts", ["nosuid", "noexec", "newinstance", "ptmxmode=0666", "mode=0620", *group]
        ),
        _mount("/dev/mqueue", "mqueue", "mqueue", safe),
    ]
    if around.host.remapped and "network" not in around.namespaces:
        mounts.append(_mount("/sys", "none", "/sys", ["rbind", *safe, *writable]))  # a new one needs its own network
    else:
        mounts.append(_mount("/sys", "sysfs", "sysfs", [*safe, *writable]))
        if around.host.cgroup_version:
            mounts.append(_mount("/sys/fs/cgroup", "cgroup", "cgroup", [*safe, "relatime", *writable]))
    mounts += [_mount(path, "bind", path, ["rbind", "ro", "rslave"]) for path in around.lent]
    own = {mount.container_path.rstrip("/") for mount in config.mounts}
    for target, path in around.files.items():
        if target not in own:
            only = ["ro"] if security.readonly_rootfs and path != "/dev/shm" else []  # noqa: S108
            mounts.append(_mount(target, "bind", path, ["rbind", "rprivate", "rw", *only]))
    sources = around.sources or [str(Path(mount.host_path).resolve()) for mount in config.mounts]
    pairs = zip(config.mounts, sources, strict=True)
    for mount, source in sorted(pairs, key=lambda pair: pair[0].container_path.rstrip("/").count("/")):
        options = ["rbind", _PROPAGATION[mount.propagation], "ro" if mount.readonly else "rw"]
        if is_image(mount):
            options = ["rbind", "rprivate", "ro", *safe]
        mounts.append(_mount(mount.container_path, "bind", source, options))
    return mounts


def _mount(destination: str, kind: str, source: str, options: Sequence[str]) -> Spec:
    return {"destination": destination, "type": kind, "source": source, "options": list(options)}

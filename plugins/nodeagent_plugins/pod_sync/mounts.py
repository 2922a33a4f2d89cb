"""Mounts of a container: volumes, hosts file and termination message file.

:func:`prepare_files` does all disk I/O of a container; blocking, called in a thread.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from nodeagent.base.structs import Struct
from nodeagent.contracts.runtime import ImageMount, Mount, MountPropagation, UserNamespace
from nodeagent.contracts.volumes import MountedVolume
from nodeagent.errors import ContainerError
from nodeagent.model.expansion import expand, unknown_references
from nodeagent.model.pod import Container, Pod, VolumeMount
from nodeagent_plugins.pod_sync.hosts import hosts_file
from nodeagent_plugins.pod_sync.labels import DEFAULT_MESSAGE_PATH
from nodeagent_plugins.pod_sync.paths import PodPaths, next_attempt
from nodeagent_plugins.pod_sync.subpaths import BindMount, bind_subpath, check_subpath

HOSTS_PATH = "/etc/hosts"
_CONFIG_ERROR = "CreateContainerConfigError"
_DISABLED, _IF_POSSIBLE = "Disabled", "IfPossible"
_PROPAGATION = {
    "HostToContainer": MountPropagation.HOST_TO_CONTAINER,
    "Bidirectional": MountPropagation.BIDIRECTIONAL,
}


class VolumePart(Struct, frozen=True):
    """One entry of a container's ``volumeMounts`` with its volume, before any I/O."""

    mount: VolumeMount
    volume: MountedVolume | ImageMount
    subpath: str
    recursive_readonly: bool = False


class HostsContent(Struct, frozen=True):
    """Values for ``/etc/hosts``."""

    ips: Sequence[str]
    hostname: str
    domain: str


class PreparedFiles(Struct, frozen=True):
    """Files on disk of a container that is about to be created."""

    attempt: int
    mounts: tuple[Mount, ...]


def volume_parts(
    container: Container,
    volumes: Mapping[str, MountedVolume | ImageMount],
    variables: Mapping[str, str],
    *,
    recursive_supported: bool = False,
) -> list[VolumePart]:
    """Match the container's mounts with the pod's volumes.

    :param recursive_supported: the runtime supports recursive read-only mounts.
    :raises ContainerError: a volume is missing, a sub-path is invalid, or a read-only mount cannot be recursive.
    """
    parts = []
    for mount in container.volume_mounts or ():
        volume = volumes.get(mount.name)
        if volume is None:
            text = f"cannot find volume {mount.name!r} to mount into container {container.name!r}"
            raise ContainerError(text, reason=_CONFIG_ERROR)
        subpath = mount.sub_path
        if mount.sub_path_expr:
            unknown = unknown_references(mount.sub_path_expr, variables)
            if unknown:
                text = f"missing value for {', '.join(unknown)} in subPathExpr {mount.sub_path_expr!r}"
                raise ContainerError(text, reason=_CONFIG_ERROR)
            subpath = expand(mount.sub_path_expr, variables)
        if subpath:
            check_subpath(subpath)
        parts.append(VolumePart(mount, volume, subpath, recursive_readonly(mount, supported=recursive_supported)))
    return parts


def recursive_readonly(mount: VolumeMount, *, supported: bool) -> bool:
    """Return whether mounts below *mount* must be read-only too.

    :raises ContainerError: the mount requires it and cannot have it.
    """
    mode, problem = mount.recursive_read_only or _DISABLED, ""
    if mode == _DISABLED:
        return False
    if not mount.read_only:
        problem = "it is not read-only"
    elif mount.mount_propagation not in (None, "", "None"):
        problem = f'it is not compatible with propagation "{mount.mount_propagation}"'
    elif mode != _IF_POSSIBLE and not supported:
        problem = "it is not supported by the runtime"
    if problem:
        text = f'volume "{mount.name}" requested recursive read-only mode, but {problem}'
        raise ContainerError(f"failed to resolve recursive read-only mode: {text}", reason=_CONFIG_ERROR)
    return supported


def prepare_files(
    pod: Pod,
    container: Container,
    attempt: int,
    paths: PodPaths,
    parts: Sequence[VolumePart],
    hosts: HostsContent | None,
    *,
    first: bool,
    bind: BindMount | None = None,
) -> PreparedFiles:
    """Create log directory, hosts file, message file and sub-paths, and return the mounts.

    :param first: no run of this container is known, so the attempt is derived from existing logs.
    :param hosts: ``None`` keeps the hosts file of the image.
    :raises ContainerError: a file cannot be created.
    """
    try:
        paths.root.mkdir(mode=0o750, parents=True, exist_ok=True)
        logs = paths.logs / container.name
        logs.mkdir(mode=0o755, parents=True, exist_ok=True)
        if first:
            attempt = max(attempt, next_attempt(logs))
        mounts = [_volume_mount(container, index, part, paths, bind) for index, part in enumerate(parts)]
        taken = {mount.container_path for mount in mounts}
        if hosts is not None and hosts.ips and HOSTS_PATH not in taken:
            node_file = _node_hosts() if pod.spec.host_network else ""
            content = hosts_file(pod, hosts.ips, hosts.hostname, hosts.domain, node_file)
            _write(paths.hosts, content, 0o644)
            mounts.append(Mount(HOSTS_PATH, str(paths.hosts)))
        message_path = container.termination_message_path or DEFAULT_MESSAGE_PATH
        if message_path not in taken:
            directory = paths.messages(container.name)
            directory.mkdir(mode=0o750, parents=True, exist_ok=True)
            file = directory / secrets.token_hex(4)
            _write(file, "", 0o666)
            mounts.append(Mount(message_path, str(file)))
    except OSError as error:
        text = f"files of container {container.name}: {error.filename}: {error.strerror or error}"
        raise ContainerError(text) from error
    return PreparedFiles(attempt, tuple(mounts))


def with_mapped_owners(files: PreparedFiles, users: UserNamespace) -> PreparedFiles:
    """Return *files* with mounts whose owners are mapped to the user namespace of the pod."""
    mounts = tuple(replace(mount, uids=users.uids, gids=users.gids) for mount in files.mounts)
    return replace(files, mounts=mounts)


def _volume_mount(container: Container, index: int, part: VolumePart, paths: PodPaths, bind: BindMount | None) -> Mount:
    mount, volume = part.mount, part.volume
    container_path = mount.mount_path if mount.mount_path.startswith("/") else f"/{mount.mount_path}"
    propagation = _PROPAGATION.get(mount.mount_propagation or "", MountPropagation.PRIVATE)
    if isinstance(volume, ImageMount):
        return Mount(
            container_path,
            host_path="",
            readonly=True,
            propagation=propagation,
            recursive_readonly=part.recursive_readonly,
            image=replace(volume, subpath=part.subpath),
        )
    host_path = volume.host_path
    if part.subpath:
        target = paths.subpaths / (volume.volume_name or volume.name) / container.name / str(index)
        host_path = bind_subpath(volume.host_path, part.subpath, target, bind, create=not volume.readonly)
    return Mount(
        container_path=container_path,
        host_path=host_path,
        readonly=mount.read_only or volume.readonly,
        selinux_relabel=volume.selinux_relabel,
        propagation=propagation,
        recursive_readonly=part.recursive_readonly,
    )


def _write(path: Path, content: str, mode: int) -> None:
    """Write in place, because running containers have the file mounted; sets the exact mode."""
    if content and _holds(path, content):
        return
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW, mode)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        os.fchmod(descriptor, mode)
        file.write(content)


def _holds(path: Path, content: str) -> bool:
    try:
        return path.read_text(encoding="utf-8") == content
    except (FileNotFoundError, UnicodeDecodeError):
        return False


def _node_hosts() -> str:
    try:
        return Path(HOSTS_PATH).read_text(encoding="utf-8", errors="replace")
    except FileNotFoundError:
        return ""

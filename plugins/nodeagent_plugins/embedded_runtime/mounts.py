"""Validation of a container's mounts."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from nodeagent.base.criproto import api_pb2 as cri
from nodeagent_plugins.embedded_runtime.errors import FailedPrecondition, InvalidArgument
from nodeagent_plugins.embedded_runtime.mount_sources import is_image
from nodeagent_plugins.embedded_runtime.users import User

_KERNEL_DIRECTORIES = ("dev", "proc", "sys")
_NEEDED = {cri.PROPAGATION_BIDIRECTIONAL: ("shared:",), cri.PROPAGATION_HOST_TO_CONTAINER: ("shared:", "master:")}


def check(requested: Iterable[cri.Mount]) -> None:
    """Check that each mount has a source, created as a directory if missing, and supports its propagation.

    :raises FailedPrecondition: the source is on a mount that is not shared.
    """
    for mount in requested:
        if not mount.container_path or bool(mount.host_path) == is_image(mount):
            raise InvalidArgument("a mount requires container_path, and either host_path or image")
        if mount.recursive_read_only and (not mount.readonly or mount.propagation != cri.PROPAGATION_PRIVATE):
            raise InvalidArgument(
                f"mount {mount.container_path}: recursive_read_only requires a private read-only mount"
            )
        if is_image(mount):
            continue
        source = Path(mount.host_path)
        if not source.exists():
            source.mkdir(parents=True, exist_ok=True)
        needed = _NEEDED.get(mount.propagation)
        if needed and not any(kind in _propagation(source.resolve()) for kind in needed):
            raise FailedPrecondition(
                f"mount {mount.container_path}: {source} is not on a {needed[0][:-1]} mount of the node"
            )


def check_root(rootfs: Path) -> None:
    """Check that the mount points of kernel file systems are no links; some OCI runtimes follow those of an image.

    :raises FailedPrecondition: one is a link.
    """
    for name in _KERNEL_DIRECTORIES:
        if (rootfs / name).is_symlink():
            raise FailedPrecondition(f"/{name} of the image is a symbolic link")


def check_mapped(user: User) -> User:
    """Return *user* if its IDs are mapped in the user namespace.

    :raises FailedPrecondition: the user or group is not mapped.
    """
    users, groups = _mapped("uid"), _mapped("gid")
    if not _has(users, user.uid):
        raise FailedPrecondition(f"user {user.uid} is not mapped in this user namespace; mapped: {_text(users)}")
    if not _has(groups, user.gid):
        raise FailedPrecondition(f"group {user.gid} is not mapped in this user namespace; mapped: {_text(groups)}")
    return User(user.uid, user.gid, tuple(gid for gid in user.groups if _has(groups, gid)), user.home)


def _mapped(kind: str) -> list[range]:
    lines = Path(f"/proc/self/{kind}_map").read_text(encoding="ascii").splitlines()
    return [range(int(first), int(first) + int(count)) for first, _, count in map(str.split, lines)]


def _has(ranges: list[range], number: int) -> bool:
    return any(number in known for known in ranges)


def _text(ranges: list[range]) -> str:
    return ", ".join(f"{known.start}" if len(known) == 1 else f"{known.start}-{known.stop - 1}" for known in ranges)


def _propagation(path: Path) -> str:
    """Return the propagation fields of the mount that contains *path*."""
    best, fields = -1, ""
    for line in Path("/proc/self/mountinfo").read_text(encoding="utf-8", errors="replace").splitlines():
        words = line.split()
        point = words[4].encode().decode("unicode_escape")
        if path.is_relative_to(point) and len(point) >= best:
            best, fields = len(point), " ".join(words[6 : words.index("-")])
    return fields

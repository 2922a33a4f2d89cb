"""Root file system of a container: mounts, devices, and the change of the root."""

from __future__ import annotations

import fcntl  # Here, because a mapped root may have no access to the modules.
import os
import stat
import struct
from pathlib import Path
from typing import Any

from nodeagent_plugins.embedded_runtime.helpers import syscalls
from nodeagent_plugins.embedded_runtime.paths import resolve_in_root

_FLAGS = {
    "ro": syscalls.MS_RDONLY,
    "nosuid": syscalls.MS_NOSUID,
    "nodev": syscalls.MS_NODEV,
    "noexec": syscalls.MS_NOEXEC,
    "noatime": syscalls.MS_NOATIME,
    "relatime": syscalls.MS_RELATIME,
    "strictatime": syscalls.MS_STRICTATIME,
    "bind": syscalls.MS_BIND,
    "rbind": syscalls.MS_BIND | syscalls.MS_REC,
    "rw": 0,
}
_PROPAGATION = {
    "rprivate": syscalls.MS_PRIVATE | syscalls.MS_REC,
    "rslave": syscalls.MS_SLAVE | syscalls.MS_REC,
    "rshared": syscalls.MS_SHARED | syscalls.MS_REC,
}
_KEPT = (
    (os.ST_RDONLY, syscalls.MS_RDONLY),
    (os.ST_NOSUID, syscalls.MS_NOSUID),
    (os.ST_NODEV, syscalls.MS_NODEV),
    (os.ST_NOEXEC, syscalls.MS_NOEXEC),
)
_KINDS = {"c": stat.S_IFCHR, "b": stat.S_IFBLK, "p": stat.S_IFIFO}
DEVICES = ("null", "zero", "full", "random", "urandom", "tty")
LINKS = {
    "fd": "/proc/self/fd",
    "stdin": "/proc/self/fd/0",
    "stdout": "/proc/self/fd/1",
    "stderr": "/proc/self/fd/2",
    "ptmx": "pts/ptmx",
}


def enter(rootfs: str, spec: dict[str, Any], groups: dict[str, str]) -> int:
    """Set up the mounts and devices of *spec* below *rootfs*, a mount, and make it the root of this process.

    :param groups: cgroups of the container by controller.
    :returns: the master side of a new terminal if requested; else -1.
    """
    linux = spec["linux"]
    inner = os.open("/", os.O_PATH | os.O_CLOEXEC)
    outer = _open_outermost() if is_chroot() else inner
    # Later mounts must not propagate to the node; those of the node may propagate to the container.
    shared = linux.get("rootfsPropagation") == "rshared"
    if not shared:
        _stand_on(outer)
        syscalls.mount("", "/", flags=syscalls.MS_SLAVE | syscalls.MS_REC)
    _stand_on(inner)
    syscalls.mount("", rootfs, flags=syscalls.MS_PRIVATE)
    if any(namespace["type"] == "user" for namespace in linux["namespaces"]):
        # Mounts of a more privileged user namespace are locked: they cannot become the root.
        syscalls.mount(rootfs, rootfs, flags=syscalls.MS_BIND)
        syscalls.mount("", rootfs, flags=syscalls.MS_PRIVATE)
    root = Path(rootfs)
    for entry in spec["mounts"]:
        _mount(root, entry, groups)
    _make_devices(root, linux.get("devices") or ())
    master = _make_terminal(root) if spec["process"].get("terminal") else -1
    if shared:  # pivot_root requires that the parent mount is not shared.
        syscalls.mount("", _mount_above(root), flags=syscalls.MS_PRIVATE)
    goal = os.open(rootfs, os.O_PATH | os.O_CLOEXEC)
    _stand_on(outer)
    os.fchdir(goal)
    syscalls.pivot_root(".", ".")
    syscalls.mount("", ".", flags=syscalls.MS_SLAVE | syscalls.MS_REC)
    syscalls.unmount(".")
    os.chdir("/")
    for path in linux.get("readonlyPaths") or ():
        if os.path.exists(path):
            syscalls.mount(path, path, flags=syscalls.MS_BIND | syscalls.MS_REC)
            _make_read_only(path)
    for path in linux.get("maskedPaths") or ():
        if os.path.isdir(path):
            syscalls.mount("tmpfs", path, "tmpfs", syscalls.MS_RDONLY, "size=0")
        elif os.path.exists(path):
            syscalls.mount("/dev/null", path, flags=syscalls.MS_BIND)
    if spec["root"].get("readonly"):
        _make_read_only("/")
    return master


def is_chroot() -> bool:
    """Return whether the root is a chroot, in which the kernel forbids mount changes and user namespaces."""
    mounts = Path("/proc/self/mountinfo").read_text(encoding="utf-8", errors="replace")
    return all(line.split()[4] != "/" for line in mounts.splitlines())


def _open_outermost() -> int:
    """Open the root of the mount namespace, of which a chroot is a part; changes root and working directory."""
    os.chdir("/")
    os.chroot("proc")  # The working directory is now outside of the root, so its parents are reachable.
    while not os.path.samestat(os.stat("."), os.stat("..")):
        os.chdir("..")
    return os.open(".", os.O_PATH | os.O_CLOEXEC)


def _stand_on(root: int) -> None:
    os.fchdir(root)
    os.chroot(".")


def _mount(root: Path, entry: dict[str, Any], groups: dict[str, str]) -> None:
    target = resolve_in_root(root, entry["destination"])
    flags, propagation, data = 0, 0, []
    for option in entry["options"]:
        if option in _FLAGS:
            flags |= _FLAGS[option]
        elif option in _PROPAGATION:
            propagation = _PROPAGATION[option]
        else:
            data.append(option)
    if flags & syscalls.MS_BIND:
        _create_mount_point(Path(entry["source"]), target)
        syscalls.mount(entry["source"], str(target), flags=flags & (syscalls.MS_BIND | syscalls.MS_REC))
        if propagation:
            syscalls.mount("", str(target), flags=propagation)
        extra = flags & ~(syscalls.MS_BIND | syscalls.MS_REC)
        if extra:
            _make_read_only(str(target), extra)
        return
    target.mkdir(parents=True, exist_ok=True)
    if entry["type"] == "cgroup":
        _mount_groups(target, flags, groups)
        return
    syscalls.mount(entry["source"], str(target), entry["type"], flags, ",".join(data))


def _mount_groups(target: Path, flags: int, groups: dict[str, str]) -> None:
    if "" in groups:
        syscalls.mount("cgroup", str(target), "cgroup2", flags)
        return
    syscalls.mount(
        "tmpfs", str(target), "tmpfs", syscalls.MS_NOSUID | syscalls.MS_NODEV | syscalls.MS_NOEXEC, "mode=755"
    )
    for controller, directory in groups.items():
        path = target / controller
        path.mkdir()
        syscalls.mount(directory, str(path), flags=syscalls.MS_BIND)
        if flags & syscalls.MS_RDONLY:
            _make_read_only(str(path))
    if flags & syscalls.MS_RDONLY:
        _make_read_only(str(target))


def _make_read_only(path: str, extra: int = syscalls.MS_RDONLY) -> None:
    """Add flags to a mount; existing flags are kept, because a user namespace cannot remove them."""
    held = os.statvfs(path).f_flag
    kept = sum(flag for bit, flag in _KEPT if held & bit)
    syscalls.mount("", path, flags=syscalls.MS_REMOUNT | syscalls.MS_BIND | kept | extra)


def _create_mount_point(source: Path, target: Path) -> None:
    if source.is_dir():
        target.mkdir(parents=True, exist_ok=True)
    elif not target.exists():
        target.parent.mkdir(parents=True, exist_ok=True)
        target.touch()


def _make_devices(root: Path, devices: Any) -> None:
    directory = resolve_in_root(root, "/dev")
    for name in DEVICES:  # Bind-mounted, because a user namespace cannot create devices.
        (directory / name).touch()
        syscalls.mount(f"/dev/{name}", str(directory / name), flags=syscalls.MS_BIND)
    for name, target in LINKS.items():
        if not os.path.lexists(directory / name):
            (directory / name).symlink_to(target)
    for device in devices:
        path = resolve_in_root(root, device["path"])
        if path.exists():
            continue
        path.parent.mkdir(parents=True, exist_ok=True)
        number = os.makedev(device.get("major", 0), device.get("minor", 0))
        os.mknod(path, _KINDS[device["type"]] | device.get("fileMode", 0o600), number)
        path.chmod(device.get("fileMode", 0o600))
        os.chown(path, device.get("uid", 0), device.get("gid", 0))


def _make_terminal(root: Path) -> int:
    """Open a new terminal for the container; it becomes its ``/dev/console``."""
    directory = resolve_in_root(root, "/dev")
    master = os.open(directory / "pts/ptmx", os.O_RDWR | os.O_NOCTTY | os.O_CLOEXEC)
    fcntl.ioctl(master, 0x40045431, struct.pack("i", 0))  # TIOCSPTLCK: unlock.
    number = struct.unpack("i", fcntl.ioctl(master, 0x80045430, b"\0" * 4))[0]  # TIOCGPTN
    (directory / "console").touch()
    syscalls.mount(str(directory / f"pts/{number}"), str(directory / "console"), flags=syscalls.MS_BIND)
    return master


def _mount_above(root: Path) -> str:
    """Return the mount point that contains the directory of *root*."""
    best = "/"
    for line in Path("/proc/self/mountinfo").read_text(encoding="utf-8", errors="replace").splitlines():
        point = line.split()[4].encode().decode("unicode_escape")
        if root.parent.is_relative_to(point) and len(point) > len(best):
            best = point
    return best

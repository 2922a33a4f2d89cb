"""Root file system of a container: mounts, devices, and the change of the root."""

from __future__ import annotations

import contextlib
import errno
import fcntl  # Here, because a mapped root may have no access to the modules.
import os
import stat
import struct
from pathlib import Path
from typing import Any

from nodeagent_plugins.embedded_runtime.helpers import syscalls
from nodeagent_plugins.embedded_runtime.helpers.confined import DIRECTORY, FILE, open_in_root, opened, proc_path

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
_ORDINARY = ("proc", "sysfs")
"""File systems that are not mounted through a link, because later steps trust their paths."""
_MASKABLE = ("cpuinfo", "diskstats", "loadavg", "meminfo", "slabinfo", "stat", "swaps", "uptime")
"""Files of ``/proc`` that a volume may replace, such as those of lxcfs."""
_NULL, _PTMX, _PTS_MAJORS = os.makedev(1, 3), os.makedev(5, 2), range(136, 144)
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
    root = os.open(rootfs, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    for entry in spec["mounts"]:
        _mount(root, entry, groups)
    null = _make_devices(root, linux.get("devices") or ())
    master = _make_terminal(root) if spec["process"].get("terminal") else -1
    if shared:  # pivot_root requires that the parent mount is not shared.
        syscalls.mount("", _mount_above(Path(rootfs)), flags=syscalls.MS_PRIVATE)
    _stand_on(outer)
    os.fchdir(root)
    syscalls.pivot_root(".", ".")
    syscalls.mount("", ".", flags=syscalls.MS_SLAVE | syscalls.MS_REC)
    syscalls.unmount(".")
    os.chdir("/")
    # The working directory of the process could be a descriptor of the node.
    for descriptor in {inner, outer, root}:
        os.close(descriptor)
    for path in linux.get("readonlyPaths") or ():
        if os.path.exists(path):
            syscalls.mount(path, path, flags=syscalls.MS_BIND | syscalls.MS_REC)
            _make_read_only(path)
    for path in linux.get("maskedPaths") or ():
        if os.path.isdir(path):
            syscalls.mount("tmpfs", path, "tmpfs", syscalls.MS_RDONLY, "size=0")
        elif os.path.exists(path):
            syscalls.mount(proc_path(null), path, flags=syscalls.MS_BIND)
    os.close(null)
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


def _mount(root: int, entry: dict[str, Any], groups: dict[str, str]) -> None:
    destination, kind = entry["destination"], entry["type"]
    flags, propagation, data = 0, 0, []
    for option in entry["options"]:
        if option in _FLAGS:
            flags |= _FLAGS[option]
        elif option in _PROPAGATION:
            propagation = _PROPAGATION[option]
        else:
            data.append(option)
    if flags & syscalls.MS_BIND:
        source = entry["source"]
        create = DIRECTORY if os.path.isdir(source) else FILE
        with opened(root, destination, create=create) as point:
            _check_proc(root, point, destination, source)
            known = _mount_ids()
            syscalls.mount(source, proc_path(point), flags=flags & (syscalls.MS_BIND | syscalls.MS_REC))
        extra = flags & ~(syscalls.MS_BIND | syscalls.MS_REC)
        if not propagation and not extra:
            return
        with opened(root, destination) as made:
            if _mount_id(made) in known:
                raise OSError(errno.EPERM, f"mount {destination}: the path changed")
            if propagation:
                syscalls.mount("", proc_path(made), flags=propagation)
            if extra:
                _make_read_only(proc_path(made), extra)
        return
    with opened(root, destination, create=DIRECTORY, follow=kind not in _ORDINARY) as point:
        if kind == "cgroup":
            _mount_groups(root, destination, point, flags, groups)
        else:
            syscalls.mount(entry["source"], proc_path(point), kind, flags, ",".join(data))


def _check_proc(root: int, point: int, destination: str, source: str) -> None:
    """Reject a mount in ``/proc``, where later steps and the container expect files of the kernel.

    :raises OSError: the mount is rejected.
    """
    device = os.fstat(point).st_dev
    with opened(root, "proc") as proc:
        if os.fstat(proc).st_dev != device or os.stat(source).st_dev == os.stat("/proc").st_dev:
            return
        for name in _MASKABLE:
            with contextlib.suppress(FileNotFoundError), opened(proc, name) as file:
                if os.path.samestat(os.fstat(file), os.fstat(point)):
                    return
    raise OSError(errno.EPERM, f"mount {destination}: volumes in /proc are not permitted")


def _mount_id(descriptor: int) -> str:
    with open(f"/proc/self/fdinfo/{descriptor}") as file:
        return next(line.split()[1] for line in file if line.startswith("mnt_id:"))


def _mount_ids() -> set[str]:
    with open("/proc/self/mountinfo", errors="replace") as file:
        return {line.split(" ", 1)[0] for line in file}


def _mount_groups(root: int, destination: str, point: int, flags: int, groups: dict[str, str]) -> None:
    if "" in groups:
        syscalls.mount("cgroup", proc_path(point), "cgroup2", flags)
        return
    safe = syscalls.MS_NOSUID | syscalls.MS_NODEV | syscalls.MS_NOEXEC
    syscalls.mount("tmpfs", proc_path(point), "tmpfs", safe, "mode=755")
    with opened(root, destination) as made:
        for controller, directory in groups.items():
            os.mkdir(controller, dir_fd=made)
            with opened(made, controller) as target:
                syscalls.mount(directory, proc_path(target), flags=syscalls.MS_BIND)
            if flags & syscalls.MS_RDONLY:
                with opened(made, controller) as target:
                    _make_read_only(proc_path(target))
        if flags & syscalls.MS_RDONLY:
            _make_read_only(proc_path(made))


def _make_read_only(path: str, extra: int = syscalls.MS_RDONLY) -> None:
    """Add flags to a mount; existing flags are kept, because a user namespace cannot remove them."""
    held = os.statvfs(path).f_flag
    kept = sum(flag for bit, flag in _KEPT if held & bit)
    syscalls.mount("", path, flags=syscalls.MS_REMOUNT | syscalls.MS_BIND | kept | extra)


def _make_devices(root: int, devices: Any) -> int:
    """Create the devices, and return a descriptor of the null device."""
    for name in DEVICES:  # Bind-mounted, because a user namespace cannot create devices.
        with opened(root, f"dev/{name}", create=FILE) as point:
            syscalls.mount(f"/dev/{name}", proc_path(point), flags=syscalls.MS_BIND)
    null = open_in_root(root, "dev/null")
    _check_device(null, _NULL, "/dev/null")
    with opened(root, "dev") as directory:
        for name, target in LINKS.items():
            try:
                os.symlink(target, name, dir_fd=directory)
            except FileExistsError:
                continue
    for device in devices:
        path = Path("/", device["path"])
        with opened(root, str(path.parent), create=DIRECTORY) as directory:
            number = os.makedev(device.get("major", 0), device.get("minor", 0))
            mask = os.umask(0)
            try:
                os.mknod(path.name, _KINDS[device["type"]] | device.get("fileMode", 0o600), number, dir_fd=directory)
            except FileExistsError:
                continue
            finally:
                os.umask(mask)
            user, group = device.get("uid", 0), device.get("gid", 0)
            os.chown(path.name, user, group, dir_fd=directory, follow_symlinks=False)
    return null


def _make_terminal(root: int) -> int:
    """Open a new terminal for the container; it becomes its ``/dev/console``."""
    with opened(root, "dev/pts/ptmx") as point:
        _check_device(point, _PTMX, "/dev/pts/ptmx")
        master = os.open(proc_path(point), os.O_RDWR | os.O_NOCTTY | os.O_CLOEXEC)
    fcntl.ioctl(master, 0x40045431, struct.pack("i", 0))  # TIOCSPTLCK: unlock.
    number = struct.unpack("i", fcntl.ioctl(master, 0x80045430, b"\0" * 4))[0]  # TIOCGPTN
    with opened(root, f"dev/pts/{number}") as slave, opened(root, "dev/console", create=FILE) as point:
        _check_terminal(slave)
        syscalls.mount(proc_path(slave), proc_path(point), flags=syscalls.MS_BIND)
    return master


def _check_device(descriptor: int, number: int, path: str) -> None:
    about = os.fstat(descriptor)
    if not stat.S_ISCHR(about.st_mode) or about.st_rdev != number:
        raise OSError(errno.EPERM, f"{path} is another file")


def _check_terminal(descriptor: int) -> None:
    if os.major(os.fstat(descriptor).st_rdev) not in _PTS_MAJORS:
        raise OSError(errno.EPERM, "/dev/pts is not that of the container")


def _mount_above(root: Path) -> str:
    """Return the mount point that contains the directory of *root*."""
    best = "/"
    for line in Path("/proc/self/mountinfo").read_text(encoding="utf-8", errors="replace").splitlines():
        point = line.split()[4].encode().decode("unicode_escape")
        if root.parent.is_relative_to(point) and len(point) > len(best):
            best = point
    return best

"""Mounts as the kinds of this plugin use them. Blocking."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from nodeagent.base.mounts import calls, loop_devices
from nodeagent.base.mounts.points import is_mount_point, remove_empty_directory
from nodeagent.base.mounts.table import containing_mount, mounts_at, read_mounts
from nodeagent.errors import VolumeError


class Mounter(Protocol):
    """Mounts and unmounts; every call may block and raises :class:`OSError` on failure."""

    def bind(self, source: Path, target: Path, options: Sequence[str]) -> None: ...

    def mount(self, source: str, target: Path, file_system: str, options: Sequence[str]) -> None: ...

    def unmount(self, target: Path, *, force: bool = False) -> None:
        """Unmount everything that is mounted at *target*; does nothing if nothing is."""
        ...

    def query(self, target: Path) -> None:
        """Request the usage of the file system at *target*; blocks while its server does not respond."""
        ...

    def mounted(self, target: Path) -> bool: ...

    def listed(self, target: Path) -> bool:
        """Return whether the mount table contains *target*, without access to its file system."""
        ...

    def source(self, target: Path) -> str:
        """Return the source of the file system at *target*, such as a device; empty if nothing is mounted there."""
        ...

    def hold(self, device: Path, *, read_only: bool) -> None:
        """Keep the device at *device* open, so that the kernel does not give its number to another one."""
        ...

    def release(self, device: Path) -> None:
        """Undo :meth:`hold`; does nothing if the device is not held."""
        ...

    def other_binds(self, source: Path, target: Path) -> list[str]:
        """Return the mount points of the directory *source*, except *source* itself and *target*."""
        ...


class LinuxMounter:
    """Mounter that uses the system calls of Linux."""

    def bind(self, source: Path, target: Path, options: Sequence[str]) -> None:
        calls.bind(source, target, options)

    def mount(self, source: str, target: Path, file_system: str, options: Sequence[str]) -> None:
        calls.mount(source, target, file_system, options)

    def unmount(self, target: Path, *, force: bool = False) -> None:
        while calls.unmount(target, force=force):
            pass

    def query(self, target: Path) -> None:
        os.statvfs(target)

    def mounted(self, target: Path) -> bool:
        return is_mount_point(target)

    def listed(self, target: Path) -> bool:
        return bool(mounts_at(target, read_mounts()))

    def source(self, target: Path) -> str:
        found = mounts_at(target, read_mounts())
        return found[-1].source if found else ""

    def hold(self, device: Path, *, read_only: bool) -> None:
        loop_devices.hold(device, read_only=read_only)

    def release(self, device: Path) -> None:
        loop_devices.release(device)

    def other_binds(self, source: Path, target: Path) -> list[str]:
        mounts, real = read_mounts(), str(source.resolve())
        entry = containing_mount(source, mounts)
        if entry is None:
            return []
        root = (entry.root.rstrip("/") + real.removeprefix(entry.path.rstrip("/"))) or "/"
        own = {real, *(each.path for each in mounts_at(target, mounts))}
        return [
            each.path for each in mounts if (each.device, each.root) == (entry.device, root) and each.path not in own
        ]


def remove_mount_point(directory: Path) -> None:
    """Remove an unmounted directory.

    :raises VolumeError: it is not empty or still in use; its content is never removed.
    """
    if not remove_empty_directory(directory):
        raise VolumeError(f"directory {directory} cannot be removed: it is not empty or is still a mount point")


def run_command(command: Sequence[str]) -> tuple[int, str]:
    """Run *command* and return its exit code and output; 127 if it is not installed."""
    try:
        result = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)
    except FileNotFoundError as error:
        return 127, f"{error.filename or command[0]}: executable file not found"
    return result.returncode, (result.stdout + result.stderr).strip()

"""File systems on block devices: a device is formatted only if it is certainly empty. Blocking."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Sequence
from pathlib import Path

from nodeagent.errors import VolumeError
from nodeagent_plugins.in_tree_volumes.mounter import Mounter, run_command

_log = logging.getLogger(__name__)

_BLKID_EMPTY = 2
_FSCK_CORRECTED, _FSCK_UNCORRECTED, _NOT_INSTALLED = 1, 4, 127
_UNKNOWN_DATA = "unknown data, probably partitions"
_MKFS = {"ext3": ("-F", "-m0"), "ext4": ("-F", "-m0"), "xfs": ("-f",)}

Run = Callable[[Sequence[str]], tuple[int, str]]
"""Runs a command and returns its exit code and output."""


class FileSystemMismatch(VolumeError):
    """The device contains another file system than requested; it was not changed."""


class Formatter:
    """Mounts block devices, after creating or checking their file systems."""

    def __init__(self, mounter: Mounter, run: Run = run_command) -> None:
        self._mounter, self._run = mounter, run

    def mount(self, device: Path, target: Path, file_system: str, options: Sequence[str], *, read_only: bool) -> None:
        """Mount *device*, formatted with *file_system* if it is empty.

        :raises FileSystemMismatch: the device contains another file system.
        :raises VolumeError: the device cannot be examined, formatted or mounted.
        """
        found = self._found(device)
        check_type(device, found, file_system)
        if not found:
            if read_only:
                raise VolumeError(f"cannot mount unformatted disk {device} as we are manipulating it in read-only mode")
            self._format(device, file_system)
        elif not read_only:
            self._check(device)
        try:
            self._mounter.mount(str(device), target, file_system, options)
        except OSError as error:
            raise VolumeError(f"failed to mount {device} at {target}: {error.strerror}") from error

    def _found(self, device: Path) -> str:
        """Return the type of the content of *device*, empty text if the device is certainly empty.

        :raises VolumeError: the content cannot be determined.
        """
        code, output = self._run(["blkid", "-p", "-s", "TYPE", "-s", "PTTYPE", "-o", "export", str(device)])
        if code == _BLKID_EMPTY:
            return ""
        if code != 0:
            raise VolumeError(f"failed to determine the content of {device}: blkid: exit status {code}: {output}")
        values = dict(line.partition("=")[::2] for line in output.splitlines() if "=" in line)
        if values.get("TYPE"):
            return values["TYPE"]
        raise VolumeError(f"failed to mount {device}: it contains {_UNKNOWN_DATA}")

    def _format(self, device: Path, file_system: str) -> None:
        if not file_system.isalnum():
            raise VolumeError(f"invalid file system type {file_system!r}")
        try:
            # Fails if the device is mounted, or used by the kernel otherwise.
            os.close(os.open(device, os.O_RDONLY | os.O_EXCL | os.O_CLOEXEC))
        except OSError as error:
            raise VolumeError(f"failed to format {device}: {error.strerror}") from error
        _log.info("Formatting empty block device", extra={"device": str(device), "fileSystem": file_system})
        code, output = self._run([f"mkfs.{file_system}", *_MKFS.get(file_system, ()), str(device)])
        if code != 0:
            raise VolumeError(
                f"format of disk {device} failed: type:({file_system}) errcode:(exit status {code}) output:({output})"
            )

    def _check(self, device: Path) -> None:
        code, output = self._run(["fsck", "-a", str(device)])
        if code == _FSCK_UNCORRECTED:
            raise VolumeError(f"'fsck' found errors on device {device} but could not correct them: {output}")
        if code == _FSCK_CORRECTED:
            _log.info("Device has errors which were corrected by fsck", extra={"device": str(device)})
        elif code not in (0, _NOT_INSTALLED):
            _log.info("Failed to check file system", extra={"device": str(device), "err": output})


def check_type(device: Path, found: str, requested: str) -> None:
    """Check that *device* is empty or contains the requested file system.

    :raises FileSystemMismatch: it contains another one.
    """
    if found not in ("", requested):
        raise FileSystemMismatch(
            f'failed to mount the volume as "{requested}", it already contains {found}. '
            f"Mount error: {device}: wrong fs type"
        )

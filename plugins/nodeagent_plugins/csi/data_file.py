"""Data files of volumes (``vol_data.json``): the driver and the handle, for operations without an API server. Blocking.

A torn file would make a volume impossible to unmount, so a file is replaced atomically and written to disk before the
driver is called.
"""

from __future__ import annotations

import contextlib
import json
import os
from pathlib import Path

import msgspec

from nodeagent.base.structs import Struct
from nodeagent.errors import VolumeError
from nodeagent_plugins.csi.directories import open_directory
from nodeagent_plugins.csi.names import PREFIX, is_driver_name

NAME = "vol_data.json"
PERSISTENT, EPHEMERAL = "Persistent", "Ephemeral"
_MAX_BYTES = 64 * 1024


class VolumeData(Struct, frozen=True):
    """Content of a data file."""

    driver: str
    handle: str
    name: str = ""
    """Name of the PersistentVolume, or of the volume in the pod spec."""
    node: str = ""
    attachment: str = ""
    lifecycle: str = ""
    selinux_label: str = ""

    def encode(self) -> bytes:
        """Return the content of the file; empty fields are omitted."""
        fields = {
            "specVolID": self.name,
            "volumeHandle": self.handle,
            "driverName": self.driver,
            "nodeName": self.node,
            "attachmentID": self.attachment,
            "volumeLifecycleMode": self.lifecycle,
            "seLinuxMountContext": self.selinux_label,
        }
        text = json.dumps({key: value for key, value in fields.items() if value}, sort_keys=True, separators=(",", ":"))
        return f"{text}\n".encode()


def load(root: Path, directory: Path) -> VolumeData:
    """Read the data file of *directory*; symbolic links below *root* are not followed.

    :param root: the root directory of the agent.
    :raises FileNotFoundError: there is none.
    :raises VolumeError: it cannot be read, or its content is invalid.
    """
    try:
        with open_directory(root, directory) as parent:
            descriptor = os.open(NAME, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK, dir_fd=parent)
        with os.fdopen(descriptor, "rb") as opened:
            content = opened.read(_MAX_BYTES + 1)
        fields = msgspec.json.decode(content, type=dict[str, str])
    except FileNotFoundError:
        raise
    except (OSError, ValueError, RecursionError) as error:
        raise _invalid(directory, str(error)) from error
    if not is_driver_name(fields.get("driverName", "")) or not fields.get("volumeHandle"):
        raise _invalid(directory, "driverName or volumeHandle is missing or invalid")
    return VolumeData(
        fields["driverName"],
        fields["volumeHandle"],
        fields.get("specVolID", ""),
        fields.get("nodeName", ""),
        fields.get("attachmentID", ""),
        fields.get("volumeLifecycleMode", ""),
        fields.get("seLinuxMountContext", ""),
    )


def save(root: Path, directory: Path, data: VolumeData) -> None:
    """Write the data file of *directory* atomically; an identical one is left unchanged.

    :param root: the root directory of the agent.
    :raises VolumeError: the file cannot be written.
    """
    aside = f".{NAME}.new"
    try:
        with open_directory(root, directory) as parent:
            content = data.encode()
            if _read(parent) == content:
                return
            with contextlib.suppress(FileNotFoundError):
                os.unlink(aside, dir_fd=parent)
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
            with os.fdopen(os.open(aside, flags, 0o644, dir_fd=parent), "wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            os.rename(aside, NAME, src_dir_fd=parent, dst_dir_fd=parent)
            _sync(parent)
    except OSError as error:
        raise VolumeError(f"{PREFIX}failed to save volume info data: {error}") from error


def _read(parent: int) -> bytes:
    try:
        descriptor = os.open(NAME, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK, dir_fd=parent)
    except OSError:
        return b""
    with os.fdopen(descriptor, "rb") as file:
        return file.read(_MAX_BYTES)


def _sync(directory: int) -> None:
    descriptor = os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=directory)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _invalid(directory: Path, reason: str) -> VolumeError:
    return VolumeError(f"{PREFIX}unmounter failed to load volume data file [{directory}]: {reason}")

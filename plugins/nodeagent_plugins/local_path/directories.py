"""Directories of local volumes: ``<name>/data`` contains the data, ``<name>/volume.json`` marks them as created here.

Every step starts from the descriptor of the parent directory and follows no symbolic link. All functions block.
"""

from __future__ import annotations

import contextlib
import errno
import json
import logging
import os
import re
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

from nodeagent.base.mounts.table import containing_mount, read_mounts
from nodeagent.base.removal import remove_content
from nodeagent.base.structs import Struct
from nodeagent_plugins.local_path import project_quota
from nodeagent_plugins.local_path.project_quota import QuotaUnsupported

_log = logging.getLogger(__name__)

_NAME = re.compile(r"[a-z0-9]([-a-z0-9]{0,126}[a-z0-9])?")
_OPEN = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_MARKER, _NEW_MARKER = "volume.json", ".volume.json.new"
_DATA, _NEW_DATA = "data", ".data.new"
_MAX_MARKER_BYTES = 4096


class InvalidRequest(ValueError):
    """The name or capacity of the volume is invalid."""


class Conflict(Exception):
    """The volume is in use, or was not created by this agent."""


class LocalVolume(Struct, frozen=True):
    """A local volume."""

    path: Path
    capacity: int
    """Size in bytes, which is enforced only with a project."""
    project: int = 0
    """ID of the project quota; 0 if the file system supports none."""


class _Marker(Struct, frozen=True):
    name: str
    capacity: int
    project: int = 0


class LocalVolumes:
    """The local volumes in *directory*, which is created with the first volume."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def create(self, name: str, capacity: int) -> LocalVolume:
        """Create a volume, or change the capacity of an existing one.

        :param name: name of the PersistentVolume, a DNS label.
        :param capacity: size in bytes.
        :raises InvalidRequest: the name is invalid.
        :raises Conflict: a directory of that name was not created by this agent.
        :raises OSError: the volume cannot be created.
        """
        _check_name(name)
        self._directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        with _opened(self._directory) as root:
            with contextlib.suppress(FileExistsError):
                os.mkdir(name, 0o700, dir_fd=root)
            with _opened(name, root) as volume:
                marker = self._marker(volume, name)
                if marker is None and _has_content(volume):
                    raise Conflict(f"directory {self._directory / name} was not created by this node agent")
                project = marker.project if marker is not None else 0
                new = _Marker(name, capacity, project or project_quota.project_id(name, self._projects(root)))
                _write_marker(volume, new)
                return self._prepare(volume, new)

    def delete(self, name: str) -> None:
        """Delete a volume and its content; does nothing if it does not exist.

        :param name: name of the PersistentVolume.
        :raises InvalidRequest: the name is invalid.
        :raises Conflict: the volume is mounted, or was not created by this agent.
        :raises OSError: the content cannot be deleted completely; call again.
        """
        _check_name(name)
        try:
            with _opened(self._directory) as root:
                self._delete(root, name)
        except FileNotFoundError:
            return

    def _delete(self, root: int, name: str) -> None:
        path = self._directory / name
        with _opened(name, root) as volume:
            marker = self._marker(volume, name)
            if marker is None and _has_content(volume):
                raise Conflict(f"directory {path} was not created by this node agent and is not deleted")
            if mounts := _mounts_of(path):
                raise Conflict(f"volume {name} is in use: it is mounted at {', '.join(mounts)}")
            with contextlib.suppress(FileNotFoundError), _opened(_DATA, volume) as data:
                remove_content(data, path / _DATA)
                if marker is not None and marker.project:
                    project_quota.clear(data, marker.project)
            remains = ((os.rmdir, _DATA), (os.rmdir, _NEW_DATA), (os.unlink, _NEW_MARKER), (os.unlink, _MARKER))
            for remove, entry in remains:
                with contextlib.suppress(FileNotFoundError):
                    remove(entry, dir_fd=volume)
        os.rmdir(name, dir_fd=root)
        os.fsync(root)

    def _prepare(self, volume: int, marker: _Marker) -> LocalVolume:
        """Create the data directory and set its quota."""
        if _DATA not in _names(volume):
            _create_data(volume)
        project = marker.project
        with _opened(_DATA, volume) as data:
            try:
                project_quota.limit(data, project, marker.capacity)
            except QuotaUnsupported as error:
                _log.info("Local volume has no quota", extra={"volume": marker.name, "err": str(error)})
                project = 0
        if project != marker.project:
            _write_marker(volume, _Marker(marker.name, marker.capacity))
        os.fsync(volume)
        return LocalVolume(self._directory / marker.name / _DATA, marker.capacity, project)

    def _projects(self, root: int) -> set[int]:
        """Return the project IDs of all volumes."""
        found = set()
        for name in _names(root):
            with contextlib.suppress(OSError, Conflict), _opened(name, root) as volume:
                if (marker := self._marker(volume, name)) is not None:
                    found.add(marker.project)
        return found

    def _marker(self, volume: int, name: str) -> _Marker | None:
        """Return the marker of a volume, ``None`` without one.

        :raises Conflict: the marker is not valid for *name*.
        """
        try:
            file = os.open(_MARKER, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=volume)
        except FileNotFoundError:
            return None
        try:
            marker = _Marker(**json.loads(os.read(file, _MAX_MARKER_BYTES)))
        except (ValueError, TypeError, RecursionError) as error:
            raise Conflict(f"marker of volume {self._directory / name} is invalid: {error}") from error
        finally:
            os.close(file)
        if marker.name != name:
            raise Conflict(f"directory {self._directory / name} belongs to the volume {marker.name}")
        return marker


def _names(descriptor: int) -> list[str]:
    return os.listdir(descriptor)


def _has_content(volume: int) -> bool:
    """Return whether there is more than the remains of an interrupted creation."""
    return bool(set(_names(volume)) - {_NEW_MARKER})


def _check_name(name: str) -> None:
    if not _NAME.fullmatch(name):
        raise InvalidRequest(f"invalid volume name {name[:200]!r}: must be a DNS label")


@contextlib.contextmanager
def _opened(path: Path | str, parent: int | None = None) -> Iterator[int]:
    """Open a directory; its last component must not be a symbolic link.

    :raises Conflict: it is a link or a file.
    """
    try:
        descriptor = os.open(path, _OPEN, dir_fd=parent)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENOTDIR):
            raise Conflict(f"{path} is not a directory") from error
        raise
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _create_data(volume: int) -> None:
    """Create the data directory; it appears under its name only with its final mode, also after a crash."""
    with contextlib.suppress(FileExistsError):
        os.mkdir(_NEW_DATA, 0o700, dir_fd=volume)
    with _opened(_NEW_DATA, volume) as data:
        os.fchmod(data, 0o777)  # Containers of any user write to it, regardless of the umask.
        os.fsync(data)
    os.rename(_NEW_DATA, _DATA, src_dir_fd=volume, dst_dir_fd=volume)


def _write_marker(volume: int, marker: _Marker) -> None:
    """Replace the marker atomically."""
    with contextlib.suppress(FileNotFoundError):
        os.unlink(_NEW_MARKER, dir_fd=volume)
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    file = os.open(_NEW_MARKER, flags, 0o600, dir_fd=volume)
    try:
        os.write(file, json.dumps(asdict(marker)).encode())
        os.fsync(file)
    finally:
        os.close(file)
    os.rename(_NEW_MARKER, _MARKER, src_dir_fd=volume, dst_dir_fd=volume)
    os.fsync(volume)


def _mounts_of(path: Path) -> list[str]:
    """Return the mount points at and below *path*, and those elsewhere whose source is at or below it."""
    mounts, real = read_mounts(), os.path.realpath(path)
    of_file_system = containing_mount(path, mounts)
    found = {entry.path for entry in mounts if entry.path == real or entry.path.startswith(f"{real}/")}
    if of_file_system is not None:
        inside = real.removeprefix(of_file_system.path.rstrip("/"))
        source = of_file_system.root.rstrip("/") + inside
        found |= {
            entry.path
            for entry in mounts
            if entry.device == of_file_system.device and (entry.root == source or entry.root.startswith(f"{source}/"))
        }
    return sorted(found)

"""Manifest files: each is read once per change; devices and files being written are not read."""

from __future__ import annotations

import errno
import fcntl
import hashlib
import logging
import os
import signal
import stat
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path

import msgspec

from nodeagent.base import identity, yamlsafe
from nodeagent.base.structs import Struct
from nodeagent.errors import ConfigError
from nodeagent.model.pod import Pod
from nodeagent.model.static_pod import static_pod
from nodeagent.model.unknown_fields import UNKNOWN_FIELDS_IGNORED, unknown_fields

_log = logging.getLogger(__name__)

MAX_FILE_BYTES = 10 * 1024 * 1024
_LIMITS = yamlsafe.Limits(max_bytes=MAX_FILE_BYTES)
_LEFTOVERS = ("~", ".tmp", ".swp", ".swx", ".bak", ".orig", ".rej", ".part")
"""Name patterns of temporary files of editors and copy tools."""
_QUIET_SECONDS = 0.5
"""Required age of a file if the file system does not report whether it is being written."""
_CLOCK_GRAIN_SECONDS = 0.1
"""A file that changed more recently may change again with the same timestamp."""
_MAX_SHOWN = 1000
"""Maximum length of a problem in a log line."""


class Scan(Struct, frozen=True):
    """Result of a read; ``pods`` is ``None`` if the path is not readable."""

    pods: Sequence[Pod] | None
    unsettled: bool = False
    """A file is being written: read again soon."""
    recreated: Sequence[Pod] = ()
    """Pods whose file was deleted and created again with the same content."""


class _File(Struct, frozen=True):
    """Cached state of one file."""

    stamp: tuple[int, ...] = ()
    digest: bytes = b""
    pod: Pod | None = None
    """Pod from the last valid content."""
    problem: str = ""
    """Reason why the current content is invalid."""


class _UnsettledError(Exception):
    """The file is being written."""


class _UnusableError(Exception):
    """The file is not readable or not a valid manifest; the text states the reason."""


class ManifestFiles:
    """Reads the files of a path, each only after it changed. Blocking; for one thread at a time."""

    def __init__(
        self, path: Path, node_name: str, wall: Callable[[], datetime], *, references_allowed: bool = True
    ) -> None:
        self._path, self._node_name, self._wall = path, node_name, wall
        self._references_allowed = references_allowed
        self._known: dict[str, _File] = {}
        self._deleted: set[str] = set()
        self._path_problem = ""

    def scan(self, deleted: Collection[str] = ()) -> Scan:
        """Return the pods of all files, sorted by file name; empty if the path does not exist.

        :param deleted: names of the files that were deleted since the last call, even if they exist again.
        """
        self._deleted.update(deleted)
        try:
            names = self._names()
        except OSError as error:
            self._log_path_problem(f"failed to read: {error.strerror or error}")
            return Scan(None)
        self._log_path_problem("")
        unsettled = False
        files: dict[str, _File] = {}
        unread: set[str] = set()
        recreated: list[Pod] = []
        for name in names:
            before = self._known.get(name, _File())
            try:
                files[name] = self._read_changed(name, before)
            except FileNotFoundError:
                continue  # Deleted since it was listed.
            except _UnsettledError:
                unsettled = True
                files[name] = before
                unread.add(Path(name).name)
                continue
            pod = files[name].pod
            if pod is not None and pod == before.pod and Path(name).name in self._deleted:
                recreated.append(pod)
        self._known = files
        self._deleted &= unread
        return Scan([file.pod for file in files.values() if file.pod is not None], unsettled, recreated)

    def _names(self) -> list[str]:
        """Return the paths of the files to read."""
        try:
            mode = self._path.stat().st_mode
        except FileNotFoundError:
            return []
        if not stat.S_ISDIR(mode):
            return [str(self._path)]
        with os.scandir(self._path) as entries:
            return sorted(e.path for e in entries if is_manifest(e.name) and not _is_directory(e))

    def _read_changed(self, name: str, before: _File) -> _File:
        """Return the current state of a file; raises like :func:`_read` if it is unknown."""
        stamp: tuple[int, ...] = ()
        digest, pod, problem = b"", before.pod, ""
        try:
            stamp, content = _read(name, before.stamp)
            if content is None:
                return before
            digest = hashlib.blake2b(content, digest_size=16).digest()
            if digest == before.digest:
                return replace(before, stamp=stamp)
            pod = self._parse(name, content, before.pod)
        except (_UnusableError, ConfigError, yamlsafe.YamlError) as error:
            problem = str(error).replace("\n", "; ")[:_MAX_SHOWN]
        if problem and (problem, digest) != (before.problem, before.digest):
            kept = f"{pod.full_name} keeps its last valid content" if pod else "the file is ignored"
            _log.error("Could not process manifest file", extra={"path": name, "err": problem, "consequence": kept})
        elif before.problem and not problem:
            _log.info("Manifest file recovered", extra={"path": name})
        return _File(stamp, digest, pod, problem)

    def _parse(self, name: str, content: bytes, before: Pod | None) -> Pod:
        plain = yamlsafe.load(content, _LIMITS)
        pod = static_pod(
            plain,
            node_name=self._node_name,
            source="file",
            origin=f"file:{name}",
            seen_at=self._wall(),
            tolerate_everything=True,
            references_allowed=self._references_allowed,
        )
        if unknown := ", ".join(map(str, unknown_fields(plain))):
            _log.warning(UNKNOWN_FIELDS_IGNORED, extra={"path": name, "fields": unknown[:_MAX_SHOWN]})  # wording: ok
        return _seen_since(pod, before)

    def _log_path_problem(self, problem: str) -> None:
        """Log the first of consecutive problems of the path, and the recovery."""
        if problem and problem != self._path_problem:
            _log.error("Unable to read config path", extra={"path": str(self._path), "err": problem})
        elif self._path_problem and not problem:
            _log.info("Config path recovered", extra={"path": str(self._path)})
        self._path_problem = problem


def is_manifest(name: str) -> bool:
    """Return whether a file of this name is read as a manifest."""
    return not name.startswith((".", "#")) and not name.endswith(_LEFTOVERS)


def _is_directory(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:
        return False  # A link loop, which the read reports.


def _seen_since(pod: Pod, before: Pod | None) -> Pod:
    """Preserve the first-seen time of a changed pod that has a UID in its manifest."""
    if before is None or before.uid != pod.uid:
        return pod
    key = identity.current().label("config.seen")
    annotations = {**(pod.metadata.annotations or {}), key: (before.metadata.annotations or {})[key]}
    metadata = msgspec.structs.replace(pod.metadata, annotations=annotations)
    return msgspec.structs.replace(pod, metadata=metadata)


def _read(name: str, known: tuple[int, ...]) -> tuple[tuple[int, ...], bytes | None]:
    """Return stamp and content of a file; the content is ``None`` if the stamp is *known*.

    :raises FileNotFoundError: the file was deleted.
    :raises _UnsettledError: the file is being written.
    :raises _UnusableError: the file is not readable.
    """
    try:
        stamp = _stamp(Path(name).stat())  # Before the open, because opening a device can have side effects.
        if known and stamp == known:
            return stamp, None
        descriptor = os.open(name, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY)
    except OSError as error:
        if isinstance(error, FileNotFoundError):
            if not Path(name).is_symlink():
                raise
            raise _UnusableError("is a dangling symbolic link") from error
        looping = error.errno == errno.ELOOP
        raise _UnusableError(
            "is a loop of symbolic links" if looping else f"failed to read: {error.strerror}"
        ) from error
    try:
        before = os.fstat(descriptor)
        _stamp(before)
        if before.st_size > MAX_FILE_BYTES:
            raise _UnusableError(f"is larger than {MAX_FILE_BYTES} bytes")
        if _being_written(descriptor, before):
            raise _UnsettledError
        content = _read_all(descriptor)
        after = os.fstat(descriptor)
    except OSError as error:
        raise _UnusableError(f"failed to read: {error.strerror}") from error
    finally:
        os.close(descriptor)
    if _stamp(before) != _stamp(after):
        raise _UnsettledError
    recent = time.time() - after.st_mtime < _CLOCK_GRAIN_SECONDS
    return (() if recent else _stamp(after)), content


def _stamp(status: os.stat_result) -> tuple[int, ...]:
    """Return the attributes that change with the content of a regular file.

    :raises _UnusableError: it is not a regular file.
    """
    if not stat.S_ISREG(status.st_mode):
        kinds = {stat.S_IFIFO: "a FIFO", stat.S_IFSOCK: "a socket", stat.S_IFDIR: "a directory"}
        raise _UnusableError(f"is {kinds.get(stat.S_IFMT(status.st_mode), 'a device')}, not a regular file")
    return (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)


def _being_written(descriptor: int, status: os.stat_result) -> bool:
    """Return whether the file is open for writing.

    The kernel grants a read lease only if the file is not open for writing. A process that opens it for writing while
    the lease is held is delayed until the release; the signal that requests the release has no effect.
    """
    try:
        fcntl.fcntl(descriptor, fcntl.F_SETSIG, signal.SIGURG)
        fcntl.fcntl(descriptor, fcntl.F_SETLEASE, fcntl.F_RDLCK)
        fcntl.fcntl(descriptor, fcntl.F_SETLEASE, fcntl.F_UNLCK)
    except OSError as error:
        if error.errno == errno.EAGAIN:
            return True
        return abs(time.time() - status.st_mtime) < _QUIET_SECONDS  # The file system does not support leases.
    return False


def _read_all(descriptor: int) -> bytes:
    """Return the content, up to one byte more than the limit."""
    chunks: list[bytes] = []
    left = MAX_FILE_BYTES + 1
    while left > 0 and (chunk := os.read(descriptor, min(left, 1 << 20))):
        chunks.append(chunk)
        left -= len(chunk)
    return b"".join(chunks)

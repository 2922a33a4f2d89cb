"""Files of CNI whose content was lost: found and removed. Blocks.

libcni keeps the result of each network of a sandbox in ``results/``, and its plugin ``host-local`` one file per
assigned address. Neither syncs them, so that a loss of power or a full disk leaves empty files or zeros. With such a
result, containerd before 2.0 fails to stop the sandbox each time; without a result, it stops it. The address of such a
file is never released.
"""

from __future__ import annotations

import contextlib
import fcntl
import ipaddress
import json
import os
import stat
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from nodeagent.base.structs import Struct

RESULTS = "results"
LOCK = "lock"
"""File in each directory of addresses that ``host-local`` locks while it changes them."""
MAX_BYTES = 1 << 20
"""Larger files are not examined."""
MAX_FILES = 20_000
"""Per directory; further ones are not examined."""
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


class Version(Struct, frozen=True):
    """Version of a file; each write has another one."""

    inode: int
    size: int
    modified_ns: int


class TornFile(Struct, frozen=True):
    """A file without valid content.

    :param kind: ``result`` or ``address``.
    """

    path: Path
    kind: str
    version: Version


class TornFiles:
    """Finds torn files of libcni and of ``host-local``; a file is read again only after it was written.

    :param cache: directory of libcni.
    :param addresses: directory of ``host-local``, which contains a directory per network.
    """

    def __init__(self, cache: Path, addresses: Path) -> None:
        self._results, self._addresses = cache / RESULTS, addresses
        self._valid: dict[Path, Version] = {}

    def find(self) -> Sequence[TornFile]:
        """Return the torn files; a file that is being written may be among them.

        :raises OSError: a directory cannot be read.
        """
        known, self._valid = self._valid, {}
        torn = list(self._torn(self._results, "result", _is_result, known))
        for name in _names(self._addresses, follow=True):
            torn += self._torn(self._addresses / name, "address", _is_address, known)
        return torn

    def _torn(
        self, directory: Path, kind: str, is_valid: Callable[[str, bytes], bool], known: dict[Path, Version]
    ) -> Iterator[TornFile]:
        for name in _names(directory):
            path = directory / name
            with contextlib.suppress(OSError):  # It was removed, or is not a file of CNI.
                version = _version(path)
                if known.get(path) == version or is_valid(name, _read(path)):
                    self._valid[path] = version
                else:
                    yield TornFile(path, kind, version)


def remove(file: TornFile) -> bool:
    """Remove *file* unless it has been written or removed since it was found; return whether it was removed.

    :raises OSError: it cannot be removed.
    """
    with _locked(file.path.parent / LOCK) as locked:
        if not locked:
            return False  # Its owner is changing the directory.
        try:
            if _version(file.path) != file.version:
                return False
            file.path.unlink()
        except FileNotFoundError:
            return False
    return True


def _is_result(_: str, content: bytes) -> bool:
    try:
        return isinstance(json.loads(content), dict)
    except (ValueError, RecursionError):
        return False


def _is_address(name: str, content: bytes) -> bool:
    """Return whether the file of an address has content; other files are not examined."""
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return True
    return bool(content.strip(b"\0"))


def _version(path: Path) -> Version:
    status = path.lstat()
    return Version(status.st_ino, status.st_size, status.st_mtime_ns)


def _read(path: Path) -> bytes:
    """Return the content of a regular file.

    :raises OSError: it cannot be read, is not a regular file, or is too large.
    """
    with os.fdopen(os.open(path, _FILE), "rb") as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise OSError("not a regular file")
        content = file.read(MAX_BYTES + 1)
    if len(content) > MAX_BYTES:
        raise OSError("too large")
    return content


def _names(directory: Path, *, follow: bool = False) -> Sequence[str]:
    """Return the names in *directory*; empty if it does not exist or is another kind of file.

    :raises OSError: it cannot be read.
    """
    try:
        opened = os.open(directory, _DIRECTORY | (0 if follow else os.O_NOFOLLOW))
    except (FileNotFoundError, NotADirectoryError):
        return []
    try:
        with os.scandir(opened) as entries:
            return sorted(entry.name for entry, _ in zip(entries, range(MAX_FILES), strict=False))
    finally:
        os.close(opened)


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[bool]:
    """Hold the lock of a directory if it has one, without waiting for it."""
    try:
        descriptor = os.open(path, _FILE)
    except FileNotFoundError:
        yield True
        return
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
            return
        yield True
    finally:
        os.close(descriptor)

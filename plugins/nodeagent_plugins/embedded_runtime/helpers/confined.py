"""Paths below a root, opened step by step: links and concurrent changes cannot lead outside of it."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager

MAX_LINKS = 40
DIRECTORY, FILE = "directory", "file"


@contextmanager
def opened(root: int, path: str, *, create: str = "", follow: bool = True) -> Iterator[int]:
    """Yield a descriptor (``O_PATH``) of *path* with the directory *root* as ``/``.

    :param create: create missing parts of the path; the last one is a ``FILE`` or a ``DIRECTORY``.
    :param follow: resolve links; otherwise they are errors.
    :raises OSError: the path is missing, or has too many links.
    """
    descriptor = open_in_root(root, path, create=create, follow=follow)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def open_in_root(root: int, path: str, *, create: str = "", follow: bool = True) -> int:
    """Return the descriptor of :func:`opened`, to be closed by the caller."""
    waiting = _steps(path)
    entered = [os.dup(root)]  # The directories on the way; ".." returns to the one that was opened.
    links = 0
    try:
        while waiting:
            name = waiting.pop()
            if name == "..":
                if len(entered) > 1:
                    os.close(entered.pop())
                continue
            if create:
                _create(name, entered[-1], DIRECTORY if waiting else create)
            found = os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=entered[-1])
            if not stat.S_ISLNK(os.fstat(found).st_mode):
                entered.append(found)
                continue
            target = os.readlink("", dir_fd=found)
            os.close(found)
            links += 1
            if links > MAX_LINKS or not follow:
                raise OSError(errno.ELOOP, f"{path}: {'too many links' if follow else 'is a symbolic link'}")
            if target.startswith("/"):
                while len(entered) > 1:
                    os.close(entered.pop())
            waiting += _steps(target)
        return entered.pop()
    finally:
        for descriptor in entered:
            os.close(descriptor)


def proc_path(descriptor: int) -> str:
    """Return a path of the opened file for system calls that have no variant for descriptors."""
    return f"/proc/self/fd/{descriptor}"


def _steps(path: str) -> list[str]:
    return [part for part in path.split("/") if part not in ("", ".")][::-1]


def _create(name: str, parent: int, kind: str) -> None:
    try:
        if kind == DIRECTORY:
            os.mkdir(name, 0o755, dir_fd=parent)
        else:
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
            os.close(os.open(name, flags, 0o644, dir_fd=parent))
    except FileExistsError:
        return
    except OSError as error:
        if error.errno != errno.EROFS:  # An existing file of a read-only volume.
            raise

"""Disk usage of directories and files."""

from __future__ import annotations

import os
import stat
import time
from collections import deque
from pathlib import Path

from nodeagent.base.structs import Struct

_BATCH = 256
_PAUSE_SECONDS = 0.005
_BLOCK = 512


class WalkTooLong(Exception):
    """The directory walk timed out."""


class DiskUse(Struct, frozen=True):
    """Allocated bytes and inodes; hard links are counted once."""

    bytes: int = 0
    inodes: int = 0

    def __add__(self, other: DiskUse) -> DiskUse:
        return DiskUse(self.bytes + other.bytes, self.inodes + other.inodes)


def use_of_tree(root: Path, seconds: float) -> DiskUse:
    """Return the usage of *root* and its descendants, without other mounted file systems. Blocks.

    Pauses after every few hundred entries, so that millions of entries neither occupy a core nor delay the event
    loop. Symbolic links are counted and never followed.

    :raises WalkTooLong: the time limit *seconds* was exceeded.
    :raises OSError: *root* is not readable.
    """
    deadline, seen = time.monotonic() + seconds, 0
    top = root.lstat()
    size, inodes = top.st_blocks * _BLOCK, 1
    linked: set[int] = set()
    waiting = deque([str(root)])
    while waiting:
        try:
            # A process in the pod may have replaced a directory with a link.
            descriptor = os.open(waiting.popleft(), os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        except OSError:
            continue
        try:
            here = Path(f"/proc/self/fd/{descriptor}").readlink()
            if os.fstat(descriptor).st_dev != top.st_dev:
                continue
            with os.scandir(descriptor) as entries:
                for entry in entries:
                    seen += 1
                    if seen % _BATCH == 0:
                        if time.monotonic() > deadline:
                            raise WalkTooLong(f"{root} directory walk timed out after {seconds:g} s")
                        time.sleep(_PAUSE_SECONDS)
                    try:
                        found = entry.stat(follow_symlinks=False)
                    except OSError:  # Deleted since the directory was read.
                        continue
                    if found.st_dev != top.st_dev:
                        continue
                    if found.st_nlink > 1 and not stat.S_ISDIR(found.st_mode):
                        if found.st_ino in linked:
                            continue
                        linked.add(found.st_ino)
                    size += found.st_blocks * _BLOCK
                    inodes += 1
                    if stat.S_ISDIR(found.st_mode):
                        waiting.append(f"{here}/{entry.name}")
        finally:
            os.close(descriptor)
    return DiskUse(size, inodes)


def use_of_files(directory: str) -> DiskUse:
    """Return the usage of the files directly in *directory*; zero if it does not exist."""
    size = inodes = 0
    try:
        with os.scandir(directory) as entries:
            for entry in entries:
                try:
                    found = entry.stat(follow_symlinks=False)
                except OSError:
                    continue
                if stat.S_ISREG(found.st_mode):
                    size += found.st_blocks * _BLOCK
                    inodes += 1
    except OSError:
        return DiskUse()
    return DiskUse(size, inodes)


def use_of_file(path: str) -> DiskUse:
    """Return the usage of one file; zero if it does not exist."""
    try:
        return DiskUse(os.lstat(path).st_blocks * _BLOCK, 1)
    except OSError:
        return DiskUse()

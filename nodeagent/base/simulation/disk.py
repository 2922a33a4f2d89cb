"""Simulated disk: files on a file system in memory whose writes are lost or torn unless they were synced.

Only the content of files is lost; directory entries, such as those of a renamed file, are durable.
"""

from __future__ import annotations

import builtins
import errno
import io
import os
import random
import stat
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

from nodeagent.base.simulation.loop import PROCESS

_WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC
_TEARABLE_BYTES = 1 << 20


class SimulatedDisk:
    """The disk of a node.

    :param excluded: prefix of the names of files that another simulation of a disk tears.
    :ivar full: writes of the simulated process fail with ``ENOSPC``.
    """

    def __init__(self, seed: object, root: Path, excluded: str | None = None) -> None:
        self.full, self._excluded = False, excluded
        self._root, self._chance = root, random.Random(f"{seed}/disk")
        self._synced: dict[int, bytes] = {}
        """Content at the last sync by inode."""

    def lose_power(self) -> int:
        """Lose or tear the files that were changed after their last sync; return their number."""
        lost, inodes = 0, set()
        for path in sorted(self._files()):
            status = path.lstat()
            inodes.add(status.st_ino)
            if status.st_size > _TEARABLE_BYTES:
                continue
            content, synced = path.read_bytes(), self._synced.get(status.st_ino)
            if content != synced and self._chance.random() < 0.5:
                torn = content[: self._chance.randrange(len(content) + 1)]
                kept = self._chance.choice((b"" if synced is None else synced, torn, b"\0" * len(torn)))
                lost += kept != content
                path.write_bytes(kept)
        self._synced = {inode: content for inode, content in self._synced.items() if inode in inodes}
        return lost

    @contextmanager
    def mounted(self) -> Iterator[None]:
        """Observe the file operations of this process until the end of the block."""
        open_file, open_descriptor, make_directory, sync = io.open, os.open, os.mkdir, os.fsync

        def open_observed(file: Any, mode: str = "r", *arguments: Any, **options: Any) -> Any:
            if set(mode) & set("wax+"):
                self._check(file)
            return open_file(file, mode, *arguments, **options)

        def open_descriptor_observed(path: Any, flags: int, *arguments: Any, **options: Any) -> int:
            if flags & _WRITES:
                self._check(path)
            return open_descriptor(path, flags, *arguments, **options)

        def make_directory_observed(path: Any, *arguments: Any, **options: Any) -> None:
            self._check(path)
            make_directory(path, *arguments, **options)

        def sync_observed(file: Any) -> None:
            self._sync(file)
            sync(file)  # Possibly of another disk.

        replaced: list[tuple[Any, str, Callable[..., Any]]] = [
            (builtins, "open", open_observed),
            (io, "open", open_observed),
            (os, "open", open_descriptor_observed),
            (os, "mkdir", make_directory_observed),
            (os, "fsync", sync_observed),
            (os, "fdatasync", sync_observed),
        ]
        with ExitStack() as stack:
            for owner, name, value in replaced:
                stack.enter_context(patch.object(owner, name, value))
            yield

    def _check(self, path: Any) -> None:
        """Raise an error if the simulated process writes to the full disk."""
        if self.full and PROCESS.get() and not isinstance(path, int):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), os.fspath(path))

    def _sync(self, file: Any) -> None:
        descriptor = file if isinstance(file, int) else file.fileno()
        status = os.fstat(descriptor)
        if stat.S_ISREG(status.st_mode) and status.st_size <= _TEARABLE_BYTES:
            with open(f"/proc/self/fd/{descriptor}", "rb") as reader:  # noqa: PTH123  The descriptor may be write-only.
                self._synced[status.st_ino] = reader.read()

    def _files(self) -> Iterator[Path]:
        for directory, _, names in os.walk(self._root):
            for name in names:
                if self._excluded is not None and name.startswith(self._excluded):
                    continue
                path = Path(directory, name)
                if stat.S_ISREG(path.lstat().st_mode):
                    yield path

"""Directory of a simulated node, on a file system in memory.

Its path depends only on the seed, because paths determine the UIDs of static pods and the order of sets.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_MEMORY = Path("/dev/shm")  # noqa: S108  The owner of the directory is verified.


@contextmanager
def private_directory(seed: object) -> Iterator[Path]:
    """Create the directory for *seed*, empty, and remove it at the end; waits for another process that uses it.

    :raises PermissionError: it belongs to another user.
    """
    parent = _MEMORY if _MEMORY.is_dir() else Path(tempfile.gettempdir())
    base = parent / f"nodeagent-simulation-{os.getuid()}"
    base.mkdir(mode=0o700, exist_ok=True)
    if base.lstat().st_uid != os.getuid() or base.is_symlink():
        raise PermissionError(f"{base} belongs to another user")
    with (base / f"{seed}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        directory = base / str(seed)
        shutil.rmtree(directory, ignore_errors=True)
        directory.mkdir()
        try:
            yield directory
        finally:
            shutil.rmtree(directory, ignore_errors=True)

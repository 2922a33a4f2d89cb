"""Files for parsers that read from the disk."""

from __future__ import annotations

import atexit
import tempfile
from functools import cache
from pathlib import Path


def written(name: str, data: bytes) -> Path:
    """Write *data* to the file *name* in a temporary directory of this process."""
    path = directory() / name
    path.write_bytes(data)
    return path


@cache
def directory() -> Path:
    """Return a temporary directory that is removed when the process exits."""
    temporary = tempfile.TemporaryDirectory(prefix="fuzz-", ignore_cleanup_errors=True)
    atexit.register(temporary.cleanup)
    return Path(temporary.name)

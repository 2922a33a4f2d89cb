"""Directory in memory for temporary files, as syncs of files need long on a busy disk."""

from __future__ import annotations

import os
from pathlib import Path

_MEMORY = Path("/dev/shm")
_LEAST_BYTES = 256 << 20


def memory_directory() -> Path | None:
    """Return a directory in memory; ``None`` if there is none, it is small, or its files cannot be executed."""
    if not os.access(_MEMORY, os.W_OK):
        return None
    file_system = os.statvfs(_MEMORY)
    free = file_system.f_bavail * file_system.f_frsize
    return _MEMORY if free >= _LEAST_BYTES and not file_system.f_flag & os.ST_NOEXEC else None

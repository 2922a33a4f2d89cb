"""Memory of this process: malloc tuning, to return freed heap memory to the kernel early, and resident memory."""

from __future__ import annotations

import contextlib
import ctypes
import os
from pathlib import Path

from nodeagent.base.libc import libc

_TRIM_THRESHOLD, _MMAP_THRESHOLD, _ARENA_MAX = -1, -3, -8
_HEAP_FIELDS = (
    "arena",
    "ordblks",
    "smblks",
    "hblks",
    "hblkhd",
    "usmblks",
    "fsmblks",
    "uordblks",
    "fordblks",
    "keepcost",
)
"""Fields of ``struct mallinfo2``; ``uordblks`` and ``hblkhd`` are the bytes in use, in the heap and mapped."""
_STATM = Path("/proc/self/statm")
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


def trim_eagerly(block_bytes: int = 64 << 10) -> None:
    """Use a single arena for all threads and return free memory early; call before threads are started.

    The C library otherwise raises its thresholds, up to 32 MiB, once large blocks were freed, and such blocks then
    leave gaps among small ones. No effect if the C library has no ``mallopt``.

    :param block_bytes: size from which blocks are mapped separately and the free end of the heap is returned.
    """
    with contextlib.suppress(OSError, AttributeError):
        mallopt = libc().mallopt
        for parameter, value in ((_ARENA_MAX, 1), (_TRIM_THRESHOLD, block_bytes), (_MMAP_THRESHOLD, block_bytes)):
            mallopt(parameter, value)


def trim() -> None:
    """Return free memory between blocks to the kernel; takes milliseconds. No effect without ``malloc_trim``."""
    with contextlib.suppress(OSError, AttributeError):
        libc().malloc_trim(0)


class _HeapUsage(ctypes.Structure):
    """Result of ``mallinfo2``."""

    _fields_ = tuple((name, ctypes.c_size_t) for name in _HEAP_FIELDS)


def heap_used_bytes() -> int | None:
    """Return the bytes that the C library has allocated, ``None`` if it has no ``mallinfo2``.

    They do not include small objects of Python, which reserves memory for these itself.
    """
    try:
        mallinfo2 = libc().mallinfo2
    except (OSError, AttributeError):
        return None
    mallinfo2.restype = _HeapUsage
    usage = mallinfo2()
    return int(usage.uordblks + usage.hblkhd)


def resident_bytes() -> int:
    """Return the resident memory of this process; takes microseconds."""
    return int(_STATM.read_bytes().split()[1]) * _PAGE_BYTES

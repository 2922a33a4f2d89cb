"""Executable code in the memory of this process."""

from __future__ import annotations

import contextlib
import ctypes
from collections.abc import Iterator
from pathlib import Path

_SMAPS = Path("/proc/self/smaps")
_DONT_NEED = 4


def unmap_code() -> None:
    """Unmap the code of the interpreter and of libraries; each page is mapped again when it runs. Takes milliseconds.

    The resident memory then no longer includes code that only the start of the process used. Private memory is not
    affected, and the code stays in the page cache until the kernel needs that memory. No effect without ``/proc``.
    """
    with contextlib.suppress(OSError, AttributeError):
        madvise = ctypes.CDLL(None).madvise
        for start, end in list(_unmodified_code(_SMAPS.read_text().splitlines())):
            madvise(ctypes.c_void_p(start), ctypes.c_size_t(end - start), _DONT_NEED)


def _unmodified_code(lines: list[str]) -> Iterator[tuple[int, int]]:
    """Yield the addresses of executable mappings of files without pages that this process has changed."""
    mapping: tuple[int, int] | None = None
    for line in lines:
        name, *fields = line.split()
        if not name.endswith(":"):
            start, _, end = name.partition("-")
            is_code = fields[0] == "r-xp" and fields[-1].startswith("/")
            mapping = (int(start, 16), int(end, 16)) if is_code else None
        elif name == "Anonymous:" and mapping is not None and fields[0] == "0":
            yield mapping

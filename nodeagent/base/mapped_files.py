"""Release of the memory of files that this process has mapped: libraries, most of whose code is rarely used."""

from __future__ import annotations

import contextlib
import ctypes
import re
from collections.abc import Iterator
from pathlib import Path

from nodeagent.base.libc import libc

_SMAPS = Path("/proc/self/smaps")
_DONT_NEED = 4
_HEADER = re.compile(r"(?P<start>[0-9a-f]+)-(?P<end>[0-9a-f]+) (?P<access>\S+) \S+ \S+ \d+ *(?P<file>.*)")


def release_unchanged_pages() -> None:
    """Unmap the pages of mapped files without changes; a page is mapped again when the process uses it.

    Mapped pages count as memory (RSS) of the process. Unmapped ones stay in the page cache of the kernel, which
    can reuse them immediately.
    """
    with contextlib.suppress(OSError, AttributeError):
        for start, end in list(_unchanged(_SMAPS.read_text())):
            libc().madvise(ctypes.c_void_p(start), ctypes.c_size_t(end - start), _DONT_NEED)


def _unchanged(smaps: str) -> Iterator[tuple[int, int]]:
    """Return the mapped parts of files that are read-only and were never changed, such as code, as start and end.

    Addresses in read-only data may have been adapted while the library was loaded; these pages must be retained.
    """
    start = end = 0
    is_read_only_file = False
    for line in smaps.splitlines():
        if header := _HEADER.fullmatch(line):
            start, end = int(header["start"], 16), int(header["end"], 16)
            is_read_only_file = header["file"].startswith("/") and "w" not in header["access"]
        elif is_read_only_file and line.startswith("Anonymous:") and int(line.split()[1]) == 0:
            yield start, end

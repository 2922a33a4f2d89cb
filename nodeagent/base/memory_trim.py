"""Return of free memory to the kernel while the process runs."""

from __future__ import annotations

import asyncio

from nodeagent.base.aio import Clock
from nodeagent.base.malloc import trim

TRIM_SECONDS = 300.0
"""Period; the store of the API server by default releases the history of changes as often."""


async def run_memory_trim(clock: Clock) -> None:
    """Trim the heap periodically, until cancelled."""
    while True:
        await clock.sleep(TRIM_SECONDS)
        await asyncio.to_thread(trim)

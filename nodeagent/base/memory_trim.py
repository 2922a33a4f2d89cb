"""Return of unused memory to the kernel while the process runs."""

from __future__ import annotations

import asyncio

from nodeagent.base.aio import Clock
from nodeagent.base.malloc import trim
from nodeagent.base.mapped_code import unmap_code

START_SECONDS = 10.0
"""Time after which most of the code that only the start uses has run."""
TRIM_SECONDS = 300.0
"""Period; the store of the API server by default releases the history of changes as often."""


async def run_memory_trim(clock: Clock) -> None:
    """Trim the heap and unmap code once after the start, then trim the heap periodically, until cancelled."""
    await clock.sleep(START_SECONDS)
    await asyncio.to_thread(unmap_code)
    while True:
        await asyncio.to_thread(trim)
        await clock.sleep(TRIM_SECONDS)

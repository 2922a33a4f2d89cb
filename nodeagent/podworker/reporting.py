"""Status reports during a long-running pod sync, such as one that stops containers."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

_log = logging.getLogger(__name__)


@asynccontextmanager
async def reporting(changed: asyncio.Event, report: Callable[[], object]) -> AsyncIterator[None]:
    """Clear *changed* and call *report* each time it is set, until the block ends.

    A sync may last for the complete grace period of a pod, or for the duration of an image pull. Probe results and
    container exits must reach the reported status before that.
    """
    reporter = asyncio.create_task(_report(changed, report))
    try:
        yield
    finally:
        reporter.cancel()
        await asyncio.gather(reporter, return_exceptions=True)


async def _report(changed: asyncio.Event, report: Callable[[], object]) -> None:
    while True:
        await changed.wait()
        changed.clear()
        try:
            report()
        except Exception:  # The status is reported again at the end of the sync.
            _log.exception("Failed to report pod status during sync")

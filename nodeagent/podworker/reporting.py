"""Status reports during a long-running pod sync, such as one that stops containers."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager

_log = logging.getLogger(__name__)


class SyncReports:
    """Reports the status of a pod after each change that becomes known during its sync.

    A sync may last for the complete grace period of a pod, or for the duration of an image pull. Probe results and
    container exits must reach the reported status before that.
    """

    def __init__(self) -> None:
        self._report: Callable[[], object] | None = None
        self._changed = False
        self._scheduled: asyncio.Handle | None = None

    def changed(self) -> None:
        """Report soon if a sync is in progress, else at the start of the next one."""
        self._changed = True
        self._schedule()

    def discard(self) -> None:
        """Report nothing about the changes so far, because the status is generated anyway."""
        self._changed = False

    @contextmanager
    def sent(self, report: Callable[[], object]) -> Iterator[None]:
        """Call *report* after each change until the block ends."""
        self._report = report
        self._schedule()
        try:
            yield
        finally:
            self._report = None
            if self._scheduled is not None:
                self._scheduled.cancel()
                self._scheduled = None

    def _schedule(self) -> None:
        if self._changed and self._report is not None and self._scheduled is None:
            self._scheduled = asyncio.get_running_loop().call_soon(self._send)

    def _send(self) -> None:
        self._scheduled, self._changed = None, False
        if self._report is None:
            return
        try:
            self._report()
        except Exception:  # The status is reported again at the end of the sync.
            _log.exception("Failed to report pod status during sync")

"""Lifecycle of the server process, from its start to its end."""

from __future__ import annotations

import asyncio
import time


class Lifecycle:
    """State of the process.

    :param livez_grace_seconds: time for which an unfinished start passes ``/livez``.
    """

    def __init__(self, livez_grace_seconds: float = 0) -> None:
        self._started, self._grace_seconds = time.monotonic(), livez_grace_seconds
        self.ready = False
        """The start has finished."""
        self.terminating = False
        """A stop was requested: requests are still served, and ``/readyz`` fails."""
        self.draining = False
        """New requests are rejected while those in flight finish."""
        self.stopping = asyncio.Event()
        """Set when watches and streams must end."""

    @property
    def in_livez_grace(self) -> bool:
        """Return whether an unfinished start passes ``/livez``."""
        return time.monotonic() - self._started < self._grace_seconds

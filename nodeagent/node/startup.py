"""Node startup metrics: time from boot until the node is Ready."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

from nodeagent.base.aio import Clock
from nodeagent.base.metrics import Gauge

BEFORE_AGENT = Gauge(
    "node_startup_pre_kubelet_duration_seconds", "Duration in seconds of node startup before kubelet starts."
)
BEFORE_REGISTRATION = Gauge(
    "node_startup_pre_registration_duration_seconds", "Duration in seconds of node startup before registration."
)
REGISTRATION = Gauge(
    "node_startup_registration_duration_seconds", "Duration in seconds of node startup during registration."
)
AFTER_REGISTRATION = Gauge(
    "node_startup_post_registration_duration_seconds", "Duration in seconds of node startup after registration."
)
TOTAL = Gauge("node_startup_duration_seconds", "Duration in seconds of node startup in total.")


def since_boot() -> tuple[float, float]:
    """Return the start time of this process and the current time, both in seconds since boot."""
    fields = Path("/proc/self/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    return int(fields[19]) / os.sysconf("SC_CLK_TCK"), time.clock_gettime(time.CLOCK_BOOTTIME)


class NodeStartup:
    """Measures the startup of a newly registered node; nothing is measured for an existing node.

    :param boot: a function like :func:`since_boot`.
    """

    def __init__(self, clock: Clock, boot: Callable[[], tuple[float, float]] = since_boot) -> None:
        self._clock = clock
        self._started, now = boot()
        self._booted_at = clock.now() - now
        self._attempted_at: float | None = None
        self._registered_at: float | None = None
        self._ready = False

    def attempted(self) -> None:
        """Record the first registration attempt."""
        if self._attempted_at is None:
            self._attempted_at = self._clock.now()

    def registered(self) -> None:
        """Record the registration of a new node."""
        if self._attempted_at is None or self._registered_at is not None:
            return
        self._registered_at = self._clock.now()
        BEFORE_AGENT.set(self._started)
        BEFORE_REGISTRATION.set(self._attempted_at - self._booted_at - self._started)
        REGISTRATION.set(self._registered_at - self._attempted_at)

    def reported_ready(self) -> None:
        """Record the first report of a Ready node."""
        if self._registered_at is None or self._ready:
            return
        self._ready, now = True, self._clock.now()
        AFTER_REGISTRATION.set(now - self._registered_at)
        TOTAL.set(now - self._booted_at)

"""How long the parts of a node's first start took, from the machine's boot until it is Ready."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

from nodeagent.base.aio import Clock
from nodeagent.base.metrics import Gauge

BEFORE_AGENT = Gauge("node_startup_pre_kubelet_duration_seconds", "From the machine's boot to the agent's start.")
BEFORE_REGISTRATION = Gauge(
    "node_startup_pre_registration_duration_seconds", "From the agent's start to its first try to register."
)
REGISTRATION = Gauge("node_startup_registration_duration_seconds", "From the first try to register to success.")
AFTER_REGISTRATION = Gauge("node_startup_post_registration_duration_seconds", "From registration to Ready.")
WHOLE = Gauge("node_startup_duration_seconds", "From the machine's boot to a node that is Ready.")


def since_boot() -> tuple[float, float]:
    """Return at which second after the machine's boot this process began, and which second it is now."""
    fields = Path("/proc/self/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    return int(fields[19]) / os.sysconf("SC_CLK_TCK"), time.clock_gettime(time.CLOCK_BOOTTIME)


class NodeStartup:
    """Measures the start of a node that is new to its API server; one that was there before has none to tell of.

    :param boot: as :func:`since_boot`.
    """

    def __init__(self, clock: Clock, boot: Callable[[], tuple[float, float]] = since_boot) -> None:
        self._clock = clock
        self._began, now = boot()
        self._booted_at = clock.now() - now
        self._attempted_at: float | None = None
        self._registered_at: float | None = None
        self._ready = False

    def attempted(self) -> None:
        """Note that registering begins."""
        if self._attempted_at is None:
            self._attempted_at = self._clock.now()

    def registered(self) -> None:
        """Note that the server has a new node."""
        if self._attempted_at is None or self._registered_at is not None:
            return
        self._registered_at = self._clock.now()
        BEFORE_AGENT.set(self._began)
        BEFORE_REGISTRATION.set(self._attempted_at - self._booted_at - self._began)
        REGISTRATION.set(self._registered_at - self._attempted_at)

    def told_ready(self) -> None:
        """Note that the server was told that the node is Ready."""
        if self._registered_at is None or self._ready:
            return
        self._ready, now = True, self._clock.now()
        AFTER_REGISTRATION.set(now - self._registered_at)
        WHOLE.set(now - self._booted_at)

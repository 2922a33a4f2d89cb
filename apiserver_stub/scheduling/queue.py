"""Queue of pending pods: by priority and age, with a growing backoff after each failed attempt. No I/O."""

from __future__ import annotations

import heapq
from collections.abc import Iterable

from msgspec import field

from nodeagent.base.structs import MutableStruct

FIRST_PAUSE_SECONDS = 1.0
MAX_PAUSE_SECONDS = 10.0
FLUSH_SECONDS = 300.0
"""Interval after which a pod is retried without a relevant change."""
_MOST_STALE = 64


class _Pending(MutableStruct):
    priority: int
    created: str
    attempts: int = 0
    tried_at: float = 0.0
    flush_at: float = 0.0
    """Time at which a parked pod is tried again without a change."""
    filters: frozenset[str] | None = None
    """Filters that rejected the pod; ``None`` while it is queued."""
    active: bool = False


class PendingPods(MutableStruct):
    """Pods that wait for a node, by key.

    Times are monotonic seconds, passed by the caller.
    """

    _pods: dict[str, _Pending] = field(default_factory=dict)
    _active: list[tuple[int, str, str]] = field(default_factory=list)
    _timers: list[tuple[float, str]] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self._pods)

    def __contains__(self, key: str) -> bool:
        return key in self._pods

    def clear(self) -> None:
        self._pods.clear()
        self._active.clear()
        self._timers.clear()

    def add(self, key: str, priority: int, created: str, now: float) -> None:
        """Queue a new or changed pod; the backoff of a changed pod continues."""
        pod = self._pods.get(key)
        if pod is None or (pod.priority, pod.created) != (priority, created):
            attempts, tried_at = (0, 0.0) if pod is None else (pod.attempts, pod.tried_at)
            pod = self._pods[key] = _Pending(priority, created, attempts, tried_at)
        pod.filters = None
        self._schedule(key, pod, now)

    def remove(self, key: str) -> None:
        """Drop a pod that is assigned or deleted."""
        self._pods.pop(key, None)
        if len(self._active) > 2 * len(self._pods) + _MOST_STALE:  # None is tried while another scheduler is active.
            self._active = [(-pod.priority, pod.created, key) for key, pod in self._pods.items() if pod.active]
            heapq.heapify(self._active)

    def pop(self, now: float) -> str | None:
        """Return the pod to try now, ``None`` if there is none; :meth:`park`, :meth:`postpone` or :meth:`remove` it."""
        while self._timers and self._timers[0][0] <= now:
            _, key = heapq.heappop(self._timers)
            pod = self._pods.get(key)
            if pod is None:
                continue
            if pod.filters is not None and now >= pod.flush_at:
                pod.filters = None
            if pod.filters is None:
                self._schedule(key, pod, now)
        while self._active:
            priority, created, key = heapq.heappop(self._active)
            pod = self._pods.get(key)
            if pod is not None and pod.active and (-pod.priority, pod.created) == (priority, created):
                pod.active = False
                return key
        return None

    def park(self, key: str, filters: Iterable[str], now: float, seconds: float = FLUSH_SECONDS) -> None:
        """Record that a pod fits on no node because of *filters*; it is tried again after *seconds* at the latest."""
        pod = self._pods.get(key)
        if pod is not None:
            pod.attempts += 1
            pod.tried_at, pod.flush_at, pod.filters = now, now + seconds, frozenset(filters)
            heapq.heappush(self._timers, (pod.flush_at, key))

    def wait_for(self, key: str, filters: Iterable[str], now: float, seconds: float = FLUSH_SECONDS) -> None:
        """Record that a pod fits, but waits for a change that :meth:`retry` reports, without counting an attempt."""
        self.park(key, filters, now, seconds)
        pod = self._pods.get(key)
        if pod is not None:
            pod.attempts = 0

    def postpone(self, key: str, now: float) -> None:
        """Record that an attempt failed for another reason; the pod is tried again after a pause."""
        pod = self._pods.get(key)
        if pod is not None:
            pod.attempts += 1
            pod.tried_at = now
            self._schedule(key, pod, now)

    def retry(self, now: float, filters: Iterable[str] | None = None) -> None:
        """Queue the parked pods that one of *filters* rejected, all without it; each after its pause."""
        relevant = None if filters is None else frozenset(filters)
        for key, pod in self._pods.items():
            if pod.filters is not None and (relevant is None or relevant & pod.filters):
                pod.filters = None
                self._schedule(key, pod, now)

    def next_due(self, now: float) -> float | None:
        """Return the seconds until a pod may be due, ``None`` if there is no such time."""
        return max(0.0, self._timers[0][0] - now) if self._timers else None

    def _schedule(self, key: str, pod: _Pending, now: float) -> None:
        pause = min(FIRST_PAUSE_SECONDS * 2 ** min(pod.attempts - 1, 10), MAX_PAUSE_SECONDS) if pod.attempts else 0.0
        if pod.attempts and now < pod.tried_at + pause:
            heapq.heappush(self._timers, (pod.tried_at + pause, key))
        elif not pod.active:
            pod.active = True
            heapq.heappush(self._active, (-pod.priority, pod.created, key))

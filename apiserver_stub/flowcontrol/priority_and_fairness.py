"""API Priority and Fairness: classification of requests, and their admission to priority levels.

Priority levels lend unused seats to levels that need more than their nominal seats; the concurrency limits are adjusted
every ten seconds to the seat demand (:mod:`apiserver_stub.flowcontrol.seat_borrowing`).

Priority levels and flow schemas are those of the API objects (spec: opt.enable-priority-and-fairness).

No package implements this.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from apiserver_stub.apimachinery.request import RequestInfo, User
from apiserver_stub.flowcontrol.priority_levels import (
    CANCELLED,
    TIME_OUT,
    Admission,
    LevelSettings,
    PriorityLevel,
    Rejected,
    RequestCounts,
)
from apiserver_stub.flowcontrol.schemas import FlowSchema
from apiserver_stub.flowcontrol.seat_borrowing import SeatTarget, allocate_seats
from nodeagent.base.aging_cache import AgingCache
from nodeagent.base.aio import Clock
from nodeagent.base.metrics import Buckets

_CACHE_SIZE, _MAX_CACHED_TEXT = 2048, 512
LENDING_SECONDS = 10.0
_WAITS = (0, 0.005, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30)
_READING = frozenset(["get", "list", "watch"])


class PriorityAndFairness:
    """Classification and admission of requests.

    :param total: total number of seats of all priority levels.
    :param wait_seconds: maximum time of a request in a queue.
    """

    def __init__(
        self, total: int, wait_seconds: float, levels: Mapping[str, LevelSettings], schemas: Sequence[FlowSchema]
    ) -> None:
        self._total, self._wait_seconds = total, wait_seconds
        self._schemas: Sequence[FlowSchema] = ()
        self.levels: dict[str, PriorityLevel] = {}
        """Priority levels by name, also those that were removed but still have requests."""
        self._cache: AgingCache[FlowSchema] = AgingCache(_CACHE_SIZE)
        self.counts: defaultdict[tuple[str, str], RequestCounts] = defaultdict(RequestCounts)
        """Flow schema and priority level → numbers of their requests."""
        self.rejected: Counter[tuple[str, str, str]] = Counter()
        self.waiting: Counter[tuple[str, str, str]] = Counter()
        """Flow schema, priority level and kind (``mutating`` or ``readOnly``) → number of waiting requests."""
        self.waits: dict[tuple[str, str, str], Buckets] = {}
        """Flow schema, priority level and admission (``true`` or ``false``) → durations of waits in a queue."""
        self.configure(levels, schemas)

    def configure(self, levels: Mapping[str, LevelSettings], schemas: Sequence[FlowSchema]) -> None:
        """Replace the configuration; seats are not borrowed until the next adjustment.

        Requests that wait or execute are not affected.

        :param levels: settings by name.
        :param schemas: flow schemas of these levels, of which the last one in order of precedence matches all requests.
        """
        self._schemas = sorted(schemas, key=lambda schema: (schema.precedence, schema.name))
        self._cache.clear()
        self._drop_series()
        for name in levels.keys() - self.levels.keys():
            self.levels[name] = PriorityLevel(name, levels[name])
        for name, level in list(self.levels.items()):
            level.removed = name not in levels
            if level.removed and level.is_idle:
                del self.levels[name]
        settings = {name: levels.get(name, level.settings) for name, level in self.levels.items()}
        shares = sum(item.shares for item in settings.values())
        for name, level in self.levels.items():
            level.configure(settings[name], math.ceil(self._total * settings[name].shares / shares), self._total)
            level.settle(level.seats)

    def _drop_series(self) -> None:
        """Drop the metrics of removed flow schemas, as clients may create any number of these."""
        active = {(schema.name, schema.level) for schema in self._schemas}
        active |= {key for key, counts in self.counts.items() if counts.executing}
        active |= {key[:2] for key, count in self.waiting.items() if count}
        every: tuple[dict[Any, Any], ...] = (self.counts, self.rejected, self.waiting, self.waits)
        for series in every:
            for key in [key for key in series if key[:2] not in active]:
                del series[key]

    def sort(self, user: User, info: RequestInfo) -> FlowSchema:
        """Return the first flow schema that matches a request."""
        target = (info.group, info.resource, info.subresource, info.namespace) if info.is_resource else info.path
        key = (user.name, user.groups, info.verb, target)
        schema: FlowSchema | None = self._cache.get(key)
        if schema is None:
            schema = next((item for item in self._schemas if item.matches(user, info)), self._schemas[-1])
            if len(user.name) + sum(map(len, user.groups)) + len(info.path) <= _MAX_CACHED_TEXT:
                self._cache.put(key, schema)
        return schema

    async def enter(self, schema: FlowSchema, user: User, info: RequestInfo, width: int = 1) -> Admission:
        """Acquire *width* seats at the priority level of *schema*; :meth:`leave` releases them.

        :raises Rejected: the request is rejected.
        """
        level = self.levels[schema.level]
        counts = self.counts[schema.name, schema.level]
        admission = Admission(schema, user, info, width, counts)
        if not level.try_enter(admission):
            await self._wait(level, admission)
        counts.dispatched += 1
        counts.executing += 1
        counts.seats += width
        return admission

    def leave(self, admission: Admission) -> None:
        """Release the seats that :meth:`enter` acquired."""
        admission.counts.executing -= 1
        admission.counts.seats -= admission.width
        self.levels[admission.schema.level].leave(admission)

    async def _wait(self, level: PriorityLevel, admission: Admission) -> None:
        schema = admission.schema
        kind = (schema.name, schema.level, "readOnly" if admission.info.verb in _READING else "mutating")
        started = time.monotonic()
        self.waiting[kind] += 1
        try:
            await level.enter(admission, self._wait_seconds)
        except Rejected as error:
            error.retry_seconds = level.retry_after.record_rejection(time.monotonic())
            self._count_rejection(level, schema, str(error))
            if str(error) == TIME_OUT:
                self._observe_wait(schema, "false", started)
            raise
        except asyncio.CancelledError:
            self._count_rejection(level, schema, CANCELLED)
            raise
        finally:
            self.waiting[kind] -= 1
        self._observe_wait(schema, "true", started)

    def _count_rejection(self, level: PriorityLevel, schema: FlowSchema, reason: str) -> None:
        level.rejected[reason] += 1
        self.rejected[schema.name, schema.level, reason] += 1

    def _observe_wait(self, schema: FlowSchema, execute: str, started: float) -> None:
        buckets = self.waits.setdefault((schema.name, schema.level, execute), Buckets(_WAITS))
        buckets.observe(time.monotonic() - started)

    async def run_seat_borrowing(self, clock: Clock) -> None:
        """Adjust the concurrency limits periodically until cancelled."""
        while True:
            await clock.sleep(LENDING_SECONDS)
            self.settle(time.monotonic())

    def settle(self, now: float) -> None:
        """Adjust the concurrency limits of all levels to their seat demand since the last call."""
        remaining = {name: level.settings for name, level in self.levels.items() if not level.removed}
        if any(level.removed and level.is_idle for level in self.levels.values()):
            self.configure(remaining, self._schemas)
        for level in self.levels.values():
            level.demand.close(now)
        self._allocate()

    def _allocate(self) -> None:
        levels = list(self.levels.values())
        targets = []
        for level in levels:
            least = max(level.least, min(level.seats, level.demand.highest))
            targets.append(SeatTarget(least, level.most, max(least, level.demand.smoothed)))
        for level, limit in zip(levels, allocate_seats(sum(level.seats for level in levels), targets), strict=True):
            level.settle(limit)

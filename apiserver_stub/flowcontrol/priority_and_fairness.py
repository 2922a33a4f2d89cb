"""API Priority and Fairness: priority levels with concurrency limits, and fair queuing of flows within a level.

Priority levels lend unused seats to levels that need more than their nominal seats; the concurrency limits are adjusted
every ten seconds to the seat demand (:mod:`apiserver_stub.flowcontrol.seat_borrowing`).

Priority levels and flow schemas are the default configuration of kube-apiserver (spec:
opt.enable-priority-and-fairness); they cannot be configured by objects.

No package implements this.
"""

from __future__ import annotations

import asyncio
import hashlib
import math
import time
import uuid
from collections import Counter, deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from apiserver_stub.apimachinery.request import RequestInfo, User
from apiserver_stub.flowcontrol.seat_borrowing import SeatDemand, SeatTarget, allocate_seats
from apiserver_stub.transport.retry_after import RetryAfter
from nodeagent.base.aio import Clock
from nodeagent.base.identity import Identity
from nodeagent.base.metrics import Buckets

_SHARES = 245
_NAMES = uuid.UUID("3b1f0a5e-6c0d-4c56-9d5e-5a0f6f1f7b61")
_CACHE_SIZE = 4096
LENDING_SECONDS = 10.0
_WAITS = (0, 0.005, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30)
_READING = frozenset(["get", "list", "watch"])
_TIME_OUT = "time-out"
SCHEMA_HEADER, LEVEL_HEADER = "X-Kubernetes-Pf-Flowschema-Uid", "X-Kubernetes-Pf-Prioritylevel-Uid"


class Rejected(Exception):
    """The request was rejected: its queue is full, or it timed out in the queue."""

    retry_seconds = 1
    """Value of the ``Retry-After`` header of the response."""


@dataclass(frozen=True, slots=True)
class _LevelSettings:
    shares: int
    lendable_percent: int = 0
    queues: int = 0
    hand: int = 0
    queue_length: int = 50


_LEVELS = {
    "system": _LevelSettings(30, 33, 64, 6),
    "node-high": _LevelSettings(40, 25, 64, 6),
    "leader-election": _LevelSettings(10, 0, 16, 4),
    "workload-high": _LevelSettings(40, 50, 128, 6),
    "workload-low": _LevelSettings(100, 90, 128, 6),
    "global-default": _LevelSettings(20, 50, 128, 6),
    "catch-all": _LevelSettings(5),
}

Test = Callable[[User, RequestInfo], bool]


@dataclass(frozen=True, slots=True)
class FlowSchema:
    """Rule that assigns matching requests to a priority level and distinguishes their flows."""

    name: str
    level: str
    matches: Test
    by_namespace: bool = False
    headers: Mapping[str, str] = field(default_factory=dict)


def _schemas(identity: Identity) -> tuple[FlowSchema, ...]:
    system = identity.system_namespace
    coordination = identity.group("coordination")
    accounts = f"system:serviceaccounts:{system}"
    managers = ("system:kube-controller-manager", "system:kube-scheduler")

    def targets_any(info: RequestInfo, *resources: tuple[str, str]) -> bool:
        return (info.group, info.resource) in resources

    leases = (coordination, "leases")
    rules: tuple[tuple[str, str, Test, bool], ...] = (
        ("exempt", "exempt", lambda user, info: "system:masters" in user.groups, False),
        (
            "probes",
            "exempt",
            lambda user, info: info.verb == "get" and info.path in ("/healthz", "/readyz", "/livez"),
            False,
        ),
        (
            "system-leader-election",
            "leader-election",
            lambda user, info: (
                (user.name in managers or accounts in user.groups)
                and info.verb in ("get", "create", "update")
                and targets_any(info, leases)
            ),
            False,
        ),
        (
            "endpoint-controller",
            "workload-high",
            lambda user, info: (
                user.name in ("system:kube-controller-manager", f"system:serviceaccount:{system}:endpoint-controller")
                and info.verb in ("get", "create", "update")
                and targets_any(info, ("", "endpoints"))
            ),
            False,
        ),
        (
            "workload-leader-election",
            "leader-election",
            lambda user, info: (
                accounts in user.groups
                and info.verb in ("get", "create", "update")
                and targets_any(info, ("", "endpoints"), ("", "configmaps"), leases)
            ),
            False,
        ),
        (
            "system-node-high",
            "node-high",
            lambda user, info: "system:nodes" in user.groups and targets_any(info, ("", "nodes"), leases),
            False,
        ),
        ("system-nodes", "system", lambda user, info: "system:nodes" in user.groups, False),
        ("kube-controller-manager", "workload-high", lambda user, info: user.name == managers[0], True),
        ("kube-scheduler", "workload-high", lambda user, info: user.name == managers[1], True),
        ("kube-system-service-accounts", "workload-high", lambda user, info: accounts in user.groups, True),
        ("service-accounts", "workload-low", lambda user, info: "system:serviceaccounts" in user.groups, False),
        (
            "global-default",
            "global-default",
            lambda user, info: not {"system:authenticated", "system:unauthenticated"}.isdisjoint(user.groups),
            False,
        ),
        ("catch-all", "catch-all", lambda user, info: True, False),
    )
    return tuple(
        FlowSchema(name, level, test, by, {SCHEMA_HEADER: _uid("schema", name), LEVEL_HEADER: _uid("level", level)})
        for name, level, test, by in rules
    )


class PriorityLevel:
    """Priority level: seats for executing requests, and queues of waiting requests.

    :attr:`seats` is the nominal number of seats, :attr:`limit` the current concurrency limit, which may be lower or
    higher because of borrowing. Each of the :attr:`executing` requests occupies one seat.
    """

    def __init__(self, name: str, kind: _LevelSettings, total: int, wait_seconds: float) -> None:
        self.name, self._kind = name, kind
        self.seats = self.limit = math.ceil(total * kind.shares / _SHARES)
        self.least = self.seats - round(self.seats * kind.lendable_percent / 100)
        self.most = self.seats + total
        self.demand = SeatDemand(time.monotonic())
        self.executing = 0
        self.waiting = 0
        self.retry_after = RetryAfter()
        self._wait_seconds = wait_seconds
        self._queues: list[deque[asyncio.Future[None]]] = [deque() for _ in range(kind.queues)]
        self._turns: deque[int] = deque()
        """Indexes of the non-empty queues, in round-robin order."""

    def try_enter(self) -> bool:
        """Acquire a seat if one is free and no request waits; return whether it was acquired."""
        if self.executing >= self.limit or self.waiting:
            return False
        self.executing += 1
        self._record_demand()
        return True

    def _record_demand(self) -> None:
        self.demand.note(self.executing + self.waiting, time.monotonic())

    async def enter(self, flow: str) -> None:
        """Wait in a queue for a seat; flows in different queues do not delay each other.

        :raises Rejected: ``queue-full``, ``time-out`` or, on a level without queues, ``concurrency-limit``.
        """
        kind = self._kind
        if not kind.queues:
            raise Rejected("concurrency-limit")
        hand = _deal(flow, kind.queues, kind.hand)
        index = min(hand, key=lambda number: len(self._queues[number]))
        queue = self._queues[index]
        if len(queue) >= kind.queue_length:
            raise Rejected("queue-full")
        seat: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        if not queue:
            self._turns.append(index)
        queue.append(seat)
        self.waiting += 1
        self._record_demand()
        try:
            async with asyncio.timeout(self._wait_seconds):
                await seat
        except (TimeoutError, asyncio.CancelledError) as error:
            if seat.done() and not seat.cancelled():  # The seat was assigned concurrently with the timeout.
                self.leave()
            elif seat in queue:
                self.waiting -= 1
                self._record_demand()
                queue.remove(seat)
                if not queue:
                    self._turns.remove(index)
            if isinstance(error, TimeoutError):
                raise Rejected(_TIME_OUT) from None
            raise

    def leave(self) -> None:
        """Release a seat, which is assigned to the next queue."""
        self.executing -= 1
        self._assign_seats()
        self._record_demand()

    def settle(self, limit: int) -> None:
        """Set the concurrency limit to *limit*; seats above a lower limit stay occupied until they are released."""
        self.limit = limit
        self._assign_seats()

    def _assign_seats(self) -> None:
        """Assign free seats to waiting requests."""
        while self._turns and self.executing < self.limit:
            index = self._turns.popleft()
            queue = self._queues[index]
            seat = queue.popleft()
            if queue:
                self._turns.append(index)
            self.waiting -= 1
            if not seat.done():
                self.executing += 1
                seat.set_result(None)


class PriorityAndFairness:
    """Classification and admission of requests.

    :param total: total number of seats of all priority levels.
    :param wait_seconds: maximum time of a request in a queue.
    """

    def __init__(self, total: int, wait_seconds: float, identity: Identity) -> None:
        self._schemas = _schemas(identity)
        self.levels = {name: PriorityLevel(name, kind, total, wait_seconds) for name, kind in _LEVELS.items()}
        self._cache: dict[tuple[object, ...], FlowSchema] = {}
        self.dispatched: Counter[tuple[str, str]] = Counter()
        """Flow schema and priority level → number of admitted requests; :attr:`finished` counts completed requests."""
        self.finished: Counter[tuple[str, str]] = Counter()
        self.rejected: Counter[tuple[str, str, str]] = Counter()
        self.waiting: Counter[tuple[str, str, str]] = Counter()
        """Flow schema, priority level and kind (``mutating`` or ``readOnly``) → number of waiting requests."""
        self.waits: dict[tuple[str, str, str], Buckets] = {}
        """Flow schema, priority level and admission (``true`` or ``false``) → durations of waits in a queue."""

    def sort(self, user: User, info: RequestInfo) -> FlowSchema:
        """Return the first flow schema that matches a request."""
        key = (user.name, user.groups, info.verb, info.group, info.resource, "" if info.is_resource else info.path)
        schema = self._cache.get(key)
        if schema is None:
            schema = next(schema for schema in self._schemas if schema.matches(user, info))
            if len(self._cache) >= _CACHE_SIZE:
                self._cache.clear()
            self._cache[key] = schema
        return schema

    async def enter(self, schema: FlowSchema, user: User, info: RequestInfo) -> PriorityLevel | None:
        """Acquire a seat and return its priority level, ``None`` for exempt requests; :meth:`leave` releases the seat.

        :raises Rejected: the request is rejected.
        """
        level = self.levels.get(schema.level)
        if level is not None and not level.try_enter():
            await self._wait(level, schema, user, info)
        self.dispatched[schema.name, schema.level] += 1
        return level

    def leave(self, schema: FlowSchema, level: PriorityLevel | None) -> None:
        """Release the seat that :meth:`enter` acquired, and count the request as finished."""
        self.finished[schema.name, schema.level] += 1
        if level is not None:
            level.leave()

    async def _wait(self, level: PriorityLevel, schema: FlowSchema, user: User, info: RequestInfo) -> None:
        flow = info.namespace if schema.by_namespace else user.name
        kind = (schema.name, schema.level, "readOnly" if info.verb in _READING else "mutating")
        started = time.monotonic()
        self.waiting[kind] += 1
        try:
            await level.enter(f"{schema.name}/{flow}")
        except Rejected as error:
            error.retry_seconds = level.retry_after.record_rejection(time.monotonic())
            self.rejected[schema.name, schema.level, str(error)] += 1
            if str(error) == _TIME_OUT:
                self._observe_wait(schema, "false", started)
            raise
        except asyncio.CancelledError:
            self.rejected[schema.name, schema.level, "cancelled"] += 1
            raise
        finally:
            self.waiting[kind] -= 1
        self._observe_wait(schema, "true", started)

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
        levels = list(self.levels.values())
        targets = []
        for level in levels:
            level.demand.close(now)
            least = max(level.least, min(level.seats, level.demand.highest))
            targets.append(SeatTarget(least, level.most, max(least, level.demand.smoothed)))
        for level, limit in zip(levels, allocate_seats(sum(level.seats for level in levels), targets), strict=True):
            level.settle(limit)


def _deal(flow: str, queues: int, hand: int) -> list[int]:
    """Return *hand* distinct queue indexes below *queues* (shuffle sharding); deterministic per *flow*."""
    value = int.from_bytes(hashlib.blake2b(flow.encode(), digest_size=16).digest())
    left, found = list(range(queues)), []
    for _ in range(hand):
        value, index = divmod(value, len(left))
        found.append(left.pop(index))
    return found


def _uid(kind: str, name: str) -> str:
    return str(uuid.uuid5(_NAMES, f"{kind}/{name}"))

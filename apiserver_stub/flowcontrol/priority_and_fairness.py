"""Priority and fairness: requests go to levels with seats of their own, and within a level callers take turns.

A level lends the part of its seats that it may and does not need to those that need more; every ten seconds it is
settled anew, by what each could have used (:mod:`apiserver_stub.flowcontrol.seat_borrowing`).

The levels and the rules that sort are those that every server of the ecosystem starts with (spec:
opt.enable-priority-and-fairness).

Custom, since no package implements it.
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
from nodeagent.base import identity
from nodeagent.base.aio import Clock
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
    """There is no place for a request: too many wait, or it waited too long."""

    retry_seconds = 1
    """When its caller should come back."""


@dataclass(frozen=True, slots=True)
class _Kind:
    shares: int
    lendable_percent: int = 0
    queues: int = 0
    hand: int = 0
    queue_length: int = 50


_LEVELS = {
    "system": _Kind(30, 33, 64, 6),
    "node-high": _Kind(40, 25, 64, 6),
    "leader-election": _Kind(10, 0, 16, 4),
    "workload-high": _Kind(40, 50, 128, 6),
    "workload-low": _Kind(100, 90, 128, 6),
    "global-default": _Kind(20, 50, 128, 6),
    "catch-all": _Kind(5),
}

Test = Callable[[User, RequestInfo], bool]


@dataclass(frozen=True, slots=True)
class FlowSchema:
    """A rule that sorts: by what it tells requests apart, and where they go."""

    name: str
    level: str
    matches: Test
    by_namespace: bool = False
    headers: Mapping[str, str] = field(default_factory=dict)


def _schemas() -> tuple[FlowSchema, ...]:
    system = identity.current().system_namespace
    coordination = identity.current().group("coordination")
    accounts = f"system:serviceaccounts:{system}"
    managers = ("system:kube-controller-manager", "system:kube-scheduler")

    def asks(info: RequestInfo, *resources: tuple[str, str]) -> bool:
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
                and asks(info, leases)
            ),
            False,
        ),
        (
            "endpoint-controller",
            "workload-high",
            lambda user, info: (
                user.name in ("system:kube-controller-manager", f"system:serviceaccount:{system}:endpoint-controller")
                and info.verb in ("get", "create", "update")
                and asks(info, ("", "endpoints"))
            ),
            False,
        ),
        (
            "workload-leader-election",
            "leader-election",
            lambda user, info: (
                accounts in user.groups
                and info.verb in ("get", "create", "update")
                and asks(info, ("", "endpoints"), ("", "configmaps"), leases)
            ),
            False,
        ),
        (
            "system-node-high",
            "node-high",
            lambda user, info: "system:nodes" in user.groups and asks(info, ("", "nodes"), leases),
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
    """Seats, and queues for those who find none; :attr:`executing` requests hold one each.

    :attr:`seats` are its own, :attr:`limit` of them are there now, fewer or more than that.
    """

    def __init__(self, name: str, kind: _Kind, total: int, wait_seconds: float) -> None:
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
        """The queues in which somebody waits, in the order of their turns."""

    def try_enter(self) -> bool:
        """Take a seat if one is free and nobody waits for it."""
        if self.executing >= self.limit or self.waiting:
            return False
        self.executing += 1
        self._note()
        return True

    def _note(self) -> None:
        self.demand.note(self.executing + self.waiting, time.monotonic())

    async def enter(self, flow: str) -> None:
        """Wait in a queue for a seat; flows that share no queue cannot hold each other up.

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
        self._note()
        try:
            async with asyncio.timeout(self._wait_seconds):
                await seat
        except (TimeoutError, asyncio.CancelledError) as error:
            if seat.done() and not seat.cancelled():  # the seat came with the end of the wait: pass it on
                self.leave()
            elif seat in queue:
                self.waiting -= 1
                self._note()
                queue.remove(seat)
                if not queue:
                    self._turns.remove(index)
            if isinstance(error, TimeoutError):
                raise Rejected(_TIME_OUT) from None
            raise

    def leave(self) -> None:
        """Give the seat back, to the queue whose turn it is."""
        self.executing -= 1
        self._call_in()
        self._note()

    def settle(self, limit: int) -> None:
        """Have *limit* seats from now on; those in use stay so until they are given back."""
        self.limit = limit
        self._call_in()

    def _call_in(self) -> None:
        """Give free seats to those who wait."""
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
    """Sorts requests and lets them in.

    :param total: seats of all levels together.
    """

    def __init__(self, total: int, wait_seconds: float) -> None:
        self._schemas = _schemas()
        self.levels = {name: PriorityLevel(name, kind, total, wait_seconds) for name, kind in _LEVELS.items()}
        self._cache: dict[tuple[object, ...], FlowSchema] = {}
        self.dispatched: Counter[tuple[str, str]] = Counter()
        """Schema and level → requests that were let in, and how many of them are over."""
        self.finished: Counter[tuple[str, str]] = Counter()
        self.rejected: Counter[tuple[str, str, str]] = Counter()
        self.waiting: Counter[tuple[str, str, str]] = Counter()
        """Schema, level and kind (``mutating`` or ``readOnly``) → requests that wait now."""
        self.waits: dict[tuple[str, str, str], Buckets] = {}
        """Schema, level and whether they were let in (``true`` or ``false``) → how long requests waited in a queue."""

    def sort(self, user: User, info: RequestInfo) -> FlowSchema:
        """Return the first rule that a request fits."""
        key = (user.name, user.groups, info.verb, info.group, info.resource, "" if info.is_resource else info.path)
        schema = self._cache.get(key)
        if schema is None:
            schema = next(schema for schema in self._schemas if schema.matches(user, info))
            if len(self._cache) >= _CACHE_SIZE:
                self._cache.clear()
            self._cache[key] = schema
        return schema

    async def enter(self, schema: FlowSchema, user: User, info: RequestInfo) -> PriorityLevel | None:
        """Return the level whose seat the request now holds, ``None`` when it needs none; it ends with :meth:`leave`.

        :raises Rejected: there is no place for it.
        """
        level = self.levels.get(schema.level)
        if level is not None and not level.try_enter():
            await self._wait(level, schema, user, info)
        self.dispatched[schema.name, schema.level] += 1
        return level

    def leave(self, schema: FlowSchema, level: PriorityLevel | None) -> None:
        """End what :meth:`enter` began."""
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
                self._waited(schema, "false", started)
            raise
        except asyncio.CancelledError:
            self.rejected[schema.name, schema.level, "cancelled"] += 1
            raise
        finally:
            self.waiting[kind] -= 1
        self._waited(schema, "true", started)

    def _waited(self, schema: FlowSchema, execute: str, started: float) -> None:
        buckets = self.waits.setdefault((schema.name, schema.level, execute), Buckets(_WAITS))
        buckets.observe(time.monotonic() - started)

    async def keep_lending(self, clock: Clock) -> None:
        """Settle who has how many seats, until cancelled."""
        while True:
            await clock.sleep(LENDING_SECONDS)
            self.settle(time.monotonic())

    def settle(self, now: float) -> None:
        """Share the seats of all levels out anew, by what was asked of each since the last time."""
        levels = list(self.levels.values())
        wishes = []
        for level in levels:
            level.demand.close(now)
            least = max(level.least, min(level.seats, level.demand.highest))
            wishes.append(SeatTarget(least, level.most, max(least, level.demand.smoothed)))
        for level, limit in zip(levels, allocate_seats(sum(level.seats for level in levels), wishes), strict=True):
            level.settle(limit)


def _deal(flow: str, queues: int, hand: int) -> list[int]:
    """Return *hand* different numbers below *queues*, always the same for *flow*."""
    value = int.from_bytes(hashlib.blake2b(flow.encode(), digest_size=16).digest())
    left, found = list(range(queues)), []
    for _ in range(hand):
        value, index = divmod(value, len(left))
        found.append(left.pop(index))
    return found


def _uid(kind: str, name: str) -> str:
    return str(uuid.uuid5(_NAMES, f"{kind}/{name}"))

"""Priority levels: seats for executing requests, and queues of waiting ones. No I/O."""

from __future__ import annotations

import asyncio
import hashlib
import math
import time
from collections import Counter, deque

from apiserver_stub.apimachinery.objects import Object
from apiserver_stub.apimachinery.request import RequestInfo, User
from apiserver_stub.flowcontrol.schemas import FlowSchema
from apiserver_stub.flowcontrol.seat_borrowing import SeatDemand, rounded
from apiserver_stub.transport.retry_after import RetryAfter
from nodeagent.base.structs import MutableStruct, Struct

TIME_OUT, QUEUE_FULL, CONCURRENCY_LIMIT, CANCELLED = "time-out", "queue-full", "concurrency-limit", "cancelled"
"""Reasons of rejections."""
_MAX_WIDTH, _MAX_WIDTH_SHARE = 10, 0.15


class Rejected(Exception):
    """The request was rejected: its queue is full, or it timed out in the queue."""

    retry_seconds = 1
    """Value of the ``Retry-After`` header of the response."""


class LevelSettings(Struct, frozen=True):
    """Settings of a priority level."""

    shares: int
    """Nominal concurrency shares: the part of all seats relative to the shares of all levels."""
    lendable_percent: int = 0
    borrowing_percent: int | None = None
    """Seats that the level can borrow, as a percentage of its nominal seats; ``None`` for no limit."""
    exempt: bool = False
    """``True`` if requests are never queued or rejected."""
    queues: int = 0
    """Number of queues; 0 if excess requests are rejected."""
    hand: int = 0
    """Number of queues of a flow, of which it uses the shortest."""
    queue_length: int = 0


def read_level(spec: Object) -> LevelSettings:
    """Return the settings in the valid specification *spec* of a priority level."""
    if spec.get("type") == "Exempt":
        exempt = spec.get("exempt") or {}
        return LevelSettings(
            exempt.get("nominalConcurrencyShares") or 0, exempt.get("lendablePercent") or 0, exempt=True
        )
    limited = spec.get("limited") or {}
    queuing = (limited.get("limitResponse") or {}).get("queuing") or {}
    return LevelSettings(
        limited.get("nominalConcurrencyShares") or 0,
        limited.get("lendablePercent") or 0,
        limited.get("borrowingLimitPercent"),
        queues=queuing.get("queues") or 0,
        hand=queuing.get("handSize") or 0,
        queue_length=queuing.get("queueLengthLimit") or 0,
    )


class RequestCounts(MutableStruct, eq=False):
    """Numbers of requests of a flow schema at a priority level."""

    dispatched: int = 0
    """Admitted requests since the start."""
    executing: int = 0
    seats: int = 0
    """Seats that the executing requests occupy."""


class Admission(MutableStruct, eq=False):
    """A request that waits or executes, and the seats that it takes."""

    schema: FlowSchema
    user: User
    info: RequestInfo
    width: int
    counts: RequestCounts
    queue: int = -1
    """Index of the queue in which it waited, -1 if it did not wait."""
    arrived: float = 0.0
    started: float = 0.0
    """Times in seconds since the epoch; 0 before the event."""
    seat: asyncio.Future[None] | None = None

    @property
    def flow(self) -> str:
        """Distinguisher of the flow."""
        return self.schema.flow_of(self.user, self.info)


class PriorityLevel:
    """One priority level.

    :attr:`seats` is the nominal number of seats, :attr:`limit` the current concurrency limit, which may be lower or
    higher because of borrowing. The executing requests occupy :attr:`occupied` seats.
    """

    def __init__(self, name: str, settings: LevelSettings) -> None:
        self.name, self.settings = name, settings
        self.seats = self.limit = self.least = self.most = 0
        self.demand = SeatDemand(time.monotonic())
        self.executing: set[Admission] = set()
        self.occupied = 0
        self.waiting = 0
        self.removed = False
        """``True`` after the removal from the configuration, until the last request has ended."""
        self.dispatched = 0
        self.rejected: Counter[str] = Counter()
        """Number of rejected requests by reason."""
        self.retry_after = RetryAfter()
        self._waiting_seats = 0
        self.queues: dict[int, deque[Admission]] = {}
        """Non-empty queues by index."""
        self._turns: deque[int] = deque()
        """Indexes of the queues, in round-robin order."""

    @property
    def max_width(self) -> int:
        """Highest number of seats of one request."""
        if not self.settings.hand:
            return _MAX_WIDTH
        share = min(math.ceil(self.seats * _MAX_WIDTH_SHARE), self.seats // self.settings.hand)
        return min(_MAX_WIDTH, max(1, share))

    @property
    def is_idle(self) -> bool:
        """``True`` if no request waits or executes."""
        return not self.executing and not self.waiting

    def configure(self, settings: LevelSettings, seats: int, total: int) -> None:
        """Apply *settings*; requests that wait stay in their queues.

        :param seats: nominal number of seats.
        :param total: number of seats of the server.
        """
        self.settings, self.seats = settings, seats
        self.least = seats - rounded(seats * settings.lendable_percent / 100)
        borrowed = settings.borrowing_percent
        self.most = seats + (total if borrowed is None else rounded(seats * borrowed / 100))

    def try_enter(self, admission: Admission) -> bool:
        """Acquire seats if they are free and no request waits; return whether they were acquired."""
        if not self.settings.exempt and (self.waiting or not self._has_seats(admission.width)):
            return False
        self._start(admission)
        return True

    async def enter(self, admission: Admission, wait_seconds: float) -> None:
        """Wait in a queue for seats; flows in different queues do not delay each other.

        :raises Rejected: the reason is one of :data:`QUEUE_FULL`, :data:`TIME_OUT` or, on a level without queues,
            :data:`CONCURRENCY_LIMIT`.
        """
        settings = self.settings
        if not settings.queues:
            raise Rejected(CONCURRENCY_LIMIT)
        hand = _deal(f"{admission.schema.name}/{admission.flow}", settings.queues, settings.hand)
        admission.queue = index = min(hand, key=lambda number: len(self.queues.get(number, ())))
        if len(self.queues.get(index, ())) >= settings.queue_length:
            raise Rejected(QUEUE_FULL)
        seat: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        admission.seat, admission.arrived = seat, time.time()
        if index not in self.queues:
            self.queues[index] = deque()
            self._turns.append(index)
        self.queues[index].append(admission)
        self._count_waiting(1, admission)
        try:
            async with asyncio.timeout(wait_seconds):
                await seat
        except (TimeoutError, asyncio.CancelledError) as error:
            if seat.done() and not seat.cancelled():  # The seats were assigned concurrently with the timeout.
                self.leave(admission)
            elif admission in (queue := self.queues.get(index, deque())):
                queue.remove(admission)
                if not queue:
                    del self.queues[index]
                    self._turns.remove(index)
                self._count_waiting(-1, admission)
            if isinstance(error, TimeoutError):
                raise Rejected(TIME_OUT) from None
            raise

    def leave(self, admission: Admission) -> None:
        """Release the seats of *admission*, which are assigned to the next queue."""
        self.executing.discard(admission)
        self._occupy(-admission.width)
        if self._turns:
            self._assign_seats()

    def settle(self, limit: int) -> None:
        """Set the concurrency limit to *limit*; seats above a lower limit stay occupied until they are released."""
        self.limit = limit
        self._assign_seats()

    def _has_seats(self, width: int) -> bool:
        # A request that is wider than the limit executes when no other one does.
        return self.occupied + width <= self.limit or (not self.executing and self.limit > 0)

    def _start(self, admission: Admission) -> None:
        admission.started = time.time()
        self.executing.add(admission)
        self.dispatched += 1
        self._occupy(admission.width)

    def _count_waiting(self, change: int, admission: Admission) -> None:
        self.waiting += change
        self._waiting_seats += change * admission.width
        self._occupy(0)

    def _occupy(self, seats: int) -> None:
        """Occupy more seats, or fewer, and record the demand."""
        self.occupied += seats
        self.demand.note(self.occupied + self._waiting_seats, time.monotonic())

    def _assign_seats(self) -> None:
        """Assign free seats to waiting requests."""
        while self._turns and self._has_seats(self.queues[self._turns[0]][0].width):
            index = self._turns.popleft()
            queue = self.queues[index]
            admission = queue.popleft()
            if queue:
                self._turns.append(index)
            else:
                del self.queues[index]
            self.waiting -= 1
            self._waiting_seats -= admission.width
            assert admission.seat is not None, "requests in queues wait"
            if not admission.seat.done():
                self._start(admission)
                admission.seat.set_result(None)


def _deal(flow: str, queues: int, hand: int) -> list[int]:
    """Return *hand* distinct queue indexes below *queues* (shuffle sharding); deterministic per *flow*."""
    value = int.from_bytes(hashlib.blake2b(flow.encode(), digest_size=16).digest())
    dealt: list[int] = []
    for count in range(queues, queues - hand, -1):
        value, index = divmod(value, count)
        for taken in sorted(dealt):
            index += taken <= index
        dealt.append(index)
    return dealt

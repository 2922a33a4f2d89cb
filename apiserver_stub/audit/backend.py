"""Delivery of audit events to a sink: per event or in batches, optionally truncated, with a bounded queue."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter, deque
from collections.abc import Sequence
from typing import Protocol

from apiserver_stub.audit import event as events
from apiserver_stub.audit.delivery import BATCH, STRICT, Delivery
from apiserver_stub.audit.event import Event
from apiserver_stub.audit.policy import LEVELS, AuditError, Level
from nodeagent.base.aio import Clock, TaskOwner
from nodeagent.base.aio.limits import TokenBucket

_log = logging.getLogger(__name__)

_FLUSH_SECONDS = 10.0
_MAX_PARALLEL_SENDS = 8


class AuditSink(Protocol):
    """Destination of encoded audit events."""

    plugin: str
    """Plugin name in metrics and log messages."""
    parallel: bool
    """Allow several batches in flight."""

    def encode(self, event: Event) -> bytes:
        """Return the encoded *event*."""
        ...

    async def write(self, records: Sequence[bytes]) -> None:
        """Write *records*.

        :raises AuditError: at least one record was not written.
        """
        ...

    async def close(self) -> None:
        """Release files and connections."""
        ...


class Backend:
    """A sink with its queue, which a single task consumes.

    :param errors: the number of lost events per plugin.
    """

    def __init__(self, destination: AuditSink, delivery: Delivery, errors: Counter[str], clock: Clock) -> None:
        self._destination, self._delivery, self._errors, self._clock = destination, delivery, errors, clock
        self._queue: deque[tuple[bytes, asyncio.Future[bool] | None]] = deque()
        self._arrived = asyncio.Event()
        self._closing = False
        self._sends = asyncio.Semaphore(_MAX_PARALLEL_SENDS)
        self._throttle = TokenBucket(
            delivery.throttle_qps if delivery.throttle_enabled else 0.0, delivery.throttle_burst, clock
        )
        self._tasks = TaskOwner(f"audit/{destination.plugin}")
        self._worker = self._tasks.start(self._run(), "worker")

    @property
    def strict(self) -> bool:
        """Return whether a request fails if its ``RequestReceived`` event cannot be delivered."""
        return self._delivery.mode == STRICT

    def submit(self, event: Event) -> asyncio.Future[bool] | None:
        """Queue *event*.

        :return: in the blocking modes a future that is true once the sink has written the event; otherwise ``None``.
        """
        record = self._record(event)
        if record is None:
            return None
        if self._delivery.mode == BATCH:
            if len(self._queue) >= self._delivery.buffer_size or self._closing:
                self._lost("buffered", 1, "audit buffer queue blocked")
            else:
                self._queue.append((record, None))
                self._arrived.set()
            return None
        delivered = asyncio.get_running_loop().create_future()
        self._queue.append((record, delivered))
        self._arrived.set()
        return delivered

    async def wait(self, delivered: asyncio.Future[bool]) -> bool:
        """Wait for the sink, at most the time that it may block a request; a timeout returns false."""
        try:
            async with asyncio.timeout(self._delivery.wait_seconds):
                return await delivered
        except TimeoutError:
            return False

    async def close(self) -> None:
        """Deliver the queued events, for at most 10 seconds, and close the sink."""
        self._closing = True
        self._arrived.set()
        await asyncio.wait((self._worker,), timeout=_FLUSH_SECONDS)
        if self._queue:
            self._lost(self._destination.plugin, len(self._queue), "the server stops")
        await self._tasks.close()
        await self._destination.close()

    def _record(self, event: Event) -> bytes | None:
        delivery = self._delivery
        if delivery.truncate:
            size = len(events.encode(event))
            if size > delivery.truncate_max_event_bytes and LEVELS[event.level] >= Level.Request:
                event = events.truncated(event)
                size = len(events.encode(event))
            if size > delivery.truncate_max_event_bytes:
                self._lost("truncate", 1, "event is too large even after truncating")
                return None
        return self._destination.encode(event)

    async def _run(self) -> None:
        batching = self._delivery.mode == BATCH
        async with asyncio.TaskGroup() as group:
            while True:
                if not self._queue:
                    if self._closing:
                        return
                    self._arrived.clear()
                    await self._arrived.wait()
                    continue
                if batching:
                    if self._delivery.max_size > 1 and self._delivery.max_wait_seconds > 0:
                        await self._fill()
                    await self._throttle.take()
                batch = self._take(self._delivery.max_size if batching else len(self._queue))
                if batching and self._destination.parallel:
                    await self._sends.acquire()
                    sending = group.create_task(self._send(batch))
                    sending.add_done_callback(lambda _: self._sends.release())
                else:
                    await self._send(batch)

    async def _fill(self) -> None:
        """Wait until a batch is full or its maximum wait time has passed."""
        timer = asyncio.ensure_future(self._clock.sleep(self._delivery.max_wait_seconds))
        try:
            while len(self._queue) < self._delivery.max_size and not self._closing and not timer.done():
                self._arrived.clear()
                arrival = asyncio.ensure_future(self._arrived.wait())
                await asyncio.wait((timer, arrival), return_when=asyncio.FIRST_COMPLETED)
                arrival.cancel()
        finally:
            timer.cancel()

    def _take(self, count: int) -> list[tuple[bytes, asyncio.Future[bool] | None]]:
        max_bytes = self._delivery.truncate_max_batch_bytes if self._delivery.truncate else 0
        batch: list[tuple[bytes, asyncio.Future[bool] | None]] = []
        size = 0
        while self._queue and len(batch) < count:
            size += len(self._queue[0][0])
            if batch and max_bytes and size > max_bytes:
                break
            batch.append(self._queue.popleft())
        return batch

    async def _send(self, batch: list[tuple[bytes, asyncio.Future[bool] | None]]) -> None:
        delivered = False
        try:
            await self._destination.write([record for record, _ in batch])
            delivered = True
        except AuditError as error:
            self._lost(self._destination.plugin, len(batch), str(error))
        except asyncio.CancelledError:
            self._lost(self._destination.plugin, len(batch), "the server stops")
            raise
        finally:
            for _, waiter in batch:
                if waiter is not None and not waiter.done():
                    waiter.set_result(delivered)

    def _lost(self, plugin: str, count: int, reason: str) -> None:
        if not self._errors[plugin]:  # Later losses are only counted, in the metrics.
            _log.error("Error in audit plugin '%s' affecting %d audit events: %s", plugin, count, reason)
        self._errors[plugin] += count

"""From the pipeline to a destination: at once or in batches, shortened where asked, never without bounds."""

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
_SENDS_AT_ONCE = 8


class AuditSink(Protocol):
    """Where records end up."""

    plugin: str
    """Its name in metrics."""
    parallel: bool
    """Whether batches may be under way side by side."""

    def encode(self, event: Event) -> bytes:
        """Return the record of *event*."""
        ...

    async def write(self, records: Sequence[bytes]) -> None:
        """Take *records*.

        :raises AuditError: it did not take all of them.
        """
        ...

    async def close(self) -> None:
        """Release what it holds."""
        ...


class Backend:
    """One destination and the queue in front of it; a single task takes from the queue.

    :param errors: counts events that were lost, by the plugin that lost them.
    """

    def __init__(self, destination: AuditSink, delivery: Delivery, errors: Counter[str], clock: Clock) -> None:
        self._destination, self._delivery, self._errors, self._clock = destination, delivery, errors, clock
        self._queue: deque[tuple[bytes, asyncio.Future[bool] | None]] = deque()
        self._arrived = asyncio.Event()
        self._closing = False
        self._sends = asyncio.Semaphore(_SENDS_AT_ONCE)
        self._throttle = TokenBucket(
            delivery.throttle_qps if delivery.throttle_enabled else 0.0, delivery.throttle_burst, clock
        )
        self._tasks = TaskOwner(f"audit/{destination.plugin}")
        self._worker = self._tasks.start(self._run(), "worker")

    @property
    def strict(self) -> bool:
        """Whether a request whose first event is not taken must fail."""
        return self._delivery.mode == STRICT

    def submit(self, event: Event) -> asyncio.Future[bool] | None:
        """Take *event*; returns what a blocked request waits for: whether the destination has the event."""
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
        taken = asyncio.get_running_loop().create_future()
        self._queue.append((record, taken))
        self._arrived.set()
        return taken

    async def wait(self, taken: asyncio.Future[bool]) -> bool:
        """Wait for a destination as long as a request may be held up by it."""
        try:
            async with asyncio.timeout(self._delivery.wait_seconds):
                return await taken
        except TimeoutError:
            return False

    async def close(self) -> None:
        """Deliver what is queued, within a limit, and release the destination."""
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
        """Wait until a batch is full, or has waited long enough."""
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
        most = self._delivery.truncate_max_batch_bytes if self._delivery.truncate else 0
        batch: list[tuple[bytes, asyncio.Future[bool] | None]] = []
        size = 0
        while self._queue and len(batch) < count:
            size += len(self._queue[0][0])
            if batch and most and size > most:
                break
            batch.append(self._queue.popleft())
        return batch

    async def _send(self, batch: list[tuple[bytes, asyncio.Future[bool] | None]]) -> None:
        taken = False
        try:
            await self._destination.write([record for record, _ in batch])
            taken = True
        except AuditError as error:
            self._lost(self._destination.plugin, len(batch), str(error))
        except asyncio.CancelledError:
            self._lost(self._destination.plugin, len(batch), "the server stops")
            raise
        finally:
            for _, waiter in batch:
                if waiter is not None and not waiter.done():
                    waiter.set_result(taken)

    def _lost(self, plugin: str, count: int, why: str) -> None:
        if not self._errors[plugin]:  # the first of its kind; the rest is in the metrics
            _log.error("Audit events are lost", extra={"plugin": plugin, "events": count, "err": why})
        self._errors[plugin] += count

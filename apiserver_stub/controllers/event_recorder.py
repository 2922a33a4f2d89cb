"""Event recorder of a controller: write events in the background, and count repeated events in a series."""

from __future__ import annotations

import asyncio
import logging
import socket
import time
from collections import deque
from typing import TYPE_CHECKING

from apiserver_stub.apimachinery import objects
from apiserver_stub.apimachinery.objects import Object
from apiserver_stub.storage import Keep, Outcome, Put, Record
from nodeagent.base.aio import Clock, SystemClock
from nodeagent.base.aio.waker import wait_for
from nodeagent.base.structs import MutableStruct

if TYPE_CHECKING:
    from apiserver_stub.storage import Store
    from nodeagent.base.identity import Identity

_log = logging.getLogger(__name__)

SERIES_SECONDS = 360.0
"""Events that repeat within this time form a series, which is written at its start and at most once per this time."""
_EVENTS = "core/events"
_MAX_NOTE, _ENDING = 1024, " ..."
_MAX_PENDING, _MAX_SERIES = 1000, 4096


class _Series(MutableStruct):
    key: str
    count: int
    seen_at: float
    written_at: float


class EventRecorder:
    """Recorder of the events of one controller, as objects of the ``events`` API group.

    Recording is best effort: events are dropped while too many wait to be written.
    """

    def __init__(
        self,
        store: Store,
        controller: str,
        ttl_seconds: int | None,
        identity: Identity,
        clock: Clock | None = None,
    ) -> None:
        self._store, self._controller, self._clock = store, controller, clock or SystemClock()
        self._ttl_seconds = ttl_seconds
        self._api_version = identity.group("events") + "/v1"
        self._instance = f"{controller}-{socket.gethostname()}"
        self._pending: deque[tuple[str, Object]] = deque()
        self._wake = asyncio.Event()
        self._series: dict[tuple[str, ...], _Series] = {}

    def record(self, regarding: Object, kind: str, reason: str, action: str, note: str) -> None:
        """Record an event of the type *kind* about the object *regarding*."""
        metadata, now = regarding["metadata"], self._clock.now()
        if len(note.encode()) > _MAX_NOTE:
            note = note.encode()[: _MAX_NOTE - len(_ENDING)].decode(errors="ignore") + _ENDING
        key = (metadata.get("uid") or "", kind, reason, action, note)
        series = self._series.get(key)
        if series is None or now - series.seen_at > SERIES_SECONDS:
            self._start(key, regarding, now)
            return
        series.count, series.seen_at = series.count + 1, now
        self._series[key] = self._series.pop(key)  # Series are ordered by their last event.
        if series.count == 2 or now - series.written_at >= SERIES_SECONDS:
            series.written_at = now
            text = {"count": series.count, "lastObservedTime": objects.now_micro()}
            self._queue(series.key, {"series": text})

    async def run(self) -> None:
        """Write events until cancelled."""
        while True:
            if self._series:
                await wait_for(self._wake, self._clock, SERIES_SECONDS + 1)
                self._drop_ended(self._clock.now())
            else:
                await self._wake.wait()
            self._wake.clear()
            while self._pending:
                await self._write(*self._pending.popleft())
                await asyncio.sleep(0)

    def _start(self, series_key: tuple[str, ...], regarding: Object, now: float) -> None:
        metadata, (_, kind, reason, action, note) = regarding["metadata"], series_key
        namespace = metadata.get("namespace") or "default"
        name = f"{metadata['name']}.{time.time_ns():x}"
        reference = {key: metadata[key] for key in ("namespace", "name", "uid", "resourceVersion") if metadata.get(key)}
        event: Object = {
            "kind": "Event",
            "apiVersion": self._api_version,
            "metadata": {
                "name": name,
                "namespace": namespace,
                "uid": objects.new_uid(),
                "creationTimestamp": objects.now(),
            },
            "eventTime": objects.now_micro(),
            "reportingController": self._controller,
            "reportingInstance": self._instance,
            "action": action,
            "reason": reason,
            "regarding": {"kind": regarding["kind"], "apiVersion": regarding["apiVersion"], **reference},
            "note": note,
            "type": kind,
            "deprecatedSource": {},
            "deprecatedFirstTimestamp": None,
            "deprecatedLastTimestamp": None,
        }
        key = objects.key_of(namespace, name)
        self._series.pop(series_key, None)
        self._series[series_key] = _Series(key, 1, now, now)
        self._drop_ended(now)
        self._queue(key, event)

    def _drop_ended(self, now: float) -> None:
        """Drop the series without recent events, most of which are about deleted objects."""
        while self._series:
            key, oldest = next(iter(self._series.items()))
            if len(self._series) <= _MAX_SERIES and now - oldest.seen_at <= SERIES_SECONDS:
                return
            del self._series[key]

    def _queue(self, key: str, change: Object) -> None:
        if len(self._pending) < _MAX_PENDING:
            self._pending.append((key, change))
            self._wake.set()

    async def _write(self, key: str, change: Object) -> None:
        """Create the event, or change the one that exists."""

        def decide(current: Record | None) -> Outcome:
            if current is None and "kind" not in change:
                raise LookupError(key)
            found: Object = {} if current is None else objects.decode(current.data)
            new = {**found, **change}
            return Keep() if new == found else Put(objects.encode_for_store(new), self._ttl())

        try:
            await self._store.update(_EVENTS, key, decide)
        except LookupError:
            return  # Expired or deleted.
        except Exception as error:
            _log.warning("Failed to write event", extra={"event": key, "err": error})

    def _ttl(self) -> int | None:
        return self._ttl_seconds

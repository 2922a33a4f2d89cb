"""The default store: records in memory, durable in SQLite with one fsync for all writes of a moment.

A write gets its revision when it is decided, becomes durable with its batch, and only then visible and acknowledged.
Decisions see writes that are still on their way, so nothing is lost between two batches. When a batch fails, every
write on its way fails with it, because later ones may have been decided on earlier ones; readers are not disturbed
and the next write tries anew.
"""

from __future__ import annotations

import asyncio
import heapq
import logging
import sqlite3
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from apiserver_stub.encryption import Unreadable
from apiserver_stub.store.base import (
    Change,
    Keep,
    Outcome,
    Probe,
    Put,
    Record,
    Remove,
    StoreRefused,
    StoreUnavailable,
    with_revision,
    without_revision,
)
from apiserver_stub.store.coding import Coding
from apiserver_stub.store.collection import Collection, Unread
from apiserver_stub.store.database import Database, Row, checkpoint

_log = logging.getLogger(__name__)

EXPIRY_SWEEP_SECONDS = 1.0
EXPIRY_BATCH = 100
EXPIRY_REST = 1.0
"""After each batch others have the store alone for as long as it took, times this."""
CHECKPOINT_SECONDS = 2.0
CHECKPOINT_BYTES = 4 << 20
"""A shorter log is left alone."""
BUSY_BYTES = 64 << 20
"""While writes come, a log is left alone until it is longer: moving it makes them wait for the disk."""


class _Write:
    __slots__ = ("_waiting", "change", "collection", "expires_at", "sealer")

    def __init__(self, collection: str, change: Change, expires_at: float | None) -> None:
        self.collection, self.change, self.expires_at = collection, change, expires_at
        self.sealer = b""
        self._waiting: list[asyncio.Future[Record]] = []

    def done(self) -> asyncio.Future[Record]:
        """Return what is resolved once this is durable; each who waits has one of his own, and may give up."""
        waiting: asyncio.Future[Record] = asyncio.get_running_loop().create_future()
        self._waiting.append(waiting)
        return waiting

    def succeed(self) -> None:
        for waiting in self._waiting:
            if not waiting.done():
                waiting.set_result(self.change.record)

    def fail(self, error: Exception) -> None:
        for waiting in self._waiting:
            if not waiting.done():
                waiting.set_exception(error)
                waiting.exception()  # a client that is gone leaves nobody to look at it


class SqliteStore:
    """A :class:`~apiserver_stub.store.base.Store` in one file.

    *now* is the time of day in seconds; records that expire are found by a heap, never by a scan.

    :param coding: how stored bytes are written and read; without it as they are served.
    :param compaction_seconds: history lives once to twice as long; with 0 only its size bounds it.
    """

    def __init__(
        self,
        path: Path,
        *,
        coding: Coding | None = None,
        compaction_seconds: float = 0.0,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._path, self._now, self._coding = path, now, coding
        self._compaction_seconds = compaction_seconds
        self._collections: dict[str, Collection] = {}
        self._revision = 0  # newest that readers may see
        self._next = 0  # newest that was given to a write
        self._latest: dict[tuple[str, str], _Write] = {}  # the newest write on its way, by collection and key
        self._queue: list[_Write] = []
        self._expiries: list[tuple[float, int, str, str]] = []
        self._healthy = True  # whether the newest batch could be written
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="store")
        self._db: Database | None = None
        self._flushing: asyncio.Task[None] | None = None
        self._tasks: list[asyncio.Task[None]] = []

    async def open(self) -> None:
        """Create or read the file and start the background work.

        :raises StoreUnavailable: the file cannot be opened or is no database.
        """
        loop = asyncio.get_running_loop()
        try:
            await loop.run_in_executor(self._thread, self._load)
        except (OSError, sqlite3.Error) as error:
            raise StoreUnavailable(f"open {self._path}: {error}") from error
        self._tasks = [
            loop.create_task(self._expire(), name="store/expire"),
            loop.create_task(self._checkpoint(), name="store/checkpoint"),
        ]
        if self._compaction_seconds:
            self._tasks.append(loop.create_task(self._compact(), name="store/compact"))

    @property
    def revision(self) -> int:
        return self._revision

    def revision_of(self, name: str) -> int:
        return self._revision

    @property
    def healthy(self) -> bool:
        """Whether the newest write could be made durable."""
        return self._healthy

    def probes(self) -> Mapping[str, Probe]:
        return {"etcd": self._sign_of_life, "etcd-readiness": self._sign_of_life}

    async def _sign_of_life(self, seconds: float) -> str:
        """Tell whether writes succeed, and the thread that makes them gets to its work in time."""
        if not self._healthy:
            return "writes fail"
        try:
            async with asyncio.timeout(seconds):
                await asyncio.get_running_loop().run_in_executor(self._thread, _nothing)
        except TimeoutError:
            return "context deadline exceeded"
        return ""

    async def catch_up(self, name: str, revision: int = 0) -> None:
        """Return at once: nobody else writes."""

    async def count(self, name: str) -> int:
        return len(self.collection(name))

    async def sizes(self) -> Mapping[str, int]:
        try:
            return {self._path.name: (await asyncio.to_thread(self._path.stat)).st_size}
        except OSError as error:
            raise StoreUnavailable(str(error)) from error

    def reread(self) -> None:
        for name, collection in self._collections.items():
            found = []
            for key, unread in list(collection.unreadable.items()):
                if (record := self._read(name, key, unread.revision, unread.stored)) is not None:
                    found.append(record)
            if found:
                collection.reset([*collection.select(), *found], self._revision)

    def collection(self, name: str) -> Collection:
        found = self._collections.get(name)
        if found is None:
            found = self._collections[name] = Collection(name, self._revision)
        return found

    async def update(self, name: str, key: str, decide: Callable[[Record | None], Outcome]) -> Record:
        on_its_way = self._latest.get((name, key))
        if (unread := self.collection(name).unreadable.get(key)) is not None:
            raise StoreRefused(unread.problem)
        if on_its_way is None:
            current = self.collection(name).get(key)
        else:
            current = None if on_its_way.change.type == "DELETED" else on_its_way.change.record
        outcome = decide(current)
        if isinstance(outcome, Keep) and current is not None and on_its_way is None and self._is_stale(name, key):
            outcome = Put(without_revision(current.data), outcome.ttl_seconds)
        if isinstance(outcome, Put | Remove):
            return await self._write(name, key, current, outcome)
        if on_its_way is not None:
            await on_its_way.done()  # what is answered must be durable
        if current is None:
            raise LookupError(key)
        return current

    async def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if self._flushing is not None:
            await self._flushing
        await asyncio.get_running_loop().run_in_executor(self._thread, self._shut)
        self._thread.shutdown()

    # Writing

    def _write(self, name: str, key: str, current: Record | None, outcome: Put | Remove) -> asyncio.Future[Record]:
        self._next += 1
        record = Record(key, self._next, with_revision(outcome.data, self._next))
        expires_at = None
        if isinstance(outcome, Remove):
            change = Change("DELETED", record, current)
        else:
            change = Change("ADDED" if current is None else "MODIFIED", record, current)
            if outcome.ttl_seconds:
                expires_at = self._now() + outcome.ttl_seconds
        write = _Write(name, change, expires_at)
        self._latest[name, key] = write
        self._queue.append(write)
        if self._flushing is None:
            self._flushing = asyncio.get_running_loop().create_task(self._flush(), name="store/flush")
        return write.done()

    async def _flush(self) -> None:
        loop = asyncio.get_running_loop()
        try:
            while self._queue:
                await asyncio.sleep(0)  # requests that are here go into the same batch
                batch, self._queue = self._queue, []
                try:
                    await loop.run_in_executor(self._thread, self._commit, batch)
                except (OSError, sqlite3.Error) as error:
                    self._healthy = False
                    self._fail(batch, error)
                else:
                    self._healthy = True
                    self._publish(batch)
        finally:
            self._flushing = None

    def _publish(self, batch: list[_Write]) -> None:
        by_collection: dict[str, list[Change]] = {}
        for write in batch:
            change = write.change
            key = change.record.key
            by_collection.setdefault(write.collection, []).append(change)
            if self._latest.get((write.collection, key)) is write:
                del self._latest[write.collection, key]
            sealed = self.collection(write.collection).sealed
            if write.sealer and change.type != "DELETED":
                sealed[key] = write.sealer
            elif sealed:
                sealed.pop(key, None)
            if write.expires_at is not None:
                heapq.heappush(self._expiries, (write.expires_at, change.revision, write.collection, key))
        for name in by_collection:
            self.collection(name)  # a new one starts at the revision before this batch
        self._revision = batch[-1].change.revision
        for name, changes in by_collection.items():
            self.collection(name).publish(changes)
        for write in batch:
            write.succeed()

    def _fail(self, batch: list[_Write], error: Exception) -> None:
        _log.error("Writes failed", extra={"path": str(self._path), "writes": len(batch)}, exc_info=error)
        failed = batch + self._queue
        self._queue = []
        self._latest.clear()
        for write in failed:
            write.fail(StoreUnavailable(f"write to {self._path.name}: {error}"))

    # In the store's thread

    def _load(self) -> None:
        db = self._db = Database(self._path)
        self._revision = self._next = db.revision()
        for row in db.rows():
            if (record := self._read(row.collection, row.key, row.revision, row.data)) is not None:
                self.collection(row.collection).load(record)
            if row.expires_at is not None:
                self._expiries.append((row.expires_at, row.revision, row.collection, row.key))
        heapq.heapify(self._expiries)

    def _read(self, name: str, key: str, revision: int, stored: bytes) -> Record | None:
        """Return the record of a row, ``None`` for one that cannot be read, which is noted."""
        coding, collection = self._coding, self.collection(name)
        if stored[:1] == b"{" and (coding is None or not coding.encryption.rules.rules):
            return Record(key, revision, stored)
        try:
            if coding is None:
                raise Unreadable("the stored data is sealed")
            data, sealer = coding.read(name, key, stored)
        except Unreadable as error:
            _log.error("Stored object cannot be read", extra={"collection": name, "key": key, "err": error})
            collection.unreadable[key] = Unread(revision, stored, str(error))
            return None
        collection.unreadable.pop(key, None)
        if sealer.identity:
            collection.sealed[key] = sealer.identity
        return Record(key, revision, with_revision(data, revision))

    def _is_stale(self, name: str, key: str) -> bool:
        coding = self._coding
        return coding is not None and coding.is_stale(name, self.collection(name).sealed.get(key, b""))

    def _stored(self, write: _Write) -> bytes:
        """Return the bytes of a row."""
        coding, record = self._coding, write.change.record
        if coding is None or coding.plain(write.collection):
            return record.data
        stored, sealer = coding.write(write.collection, record.key, without_revision(record.data))
        write.sealer = sealer.identity
        return stored

    def _commit(self, batch: list[_Write]) -> None:
        if (db := self._db) is None:
            raise sqlite3.ProgrammingError("store is closed")
        final: dict[tuple[str, str], _Write] = {}
        removes = []
        for write in batch:
            place, previous = (write.collection, write.change.record.key), write.change.previous
            if place not in final and previous is not None:  # of several writes to one key only the last is stored
                removes.append(previous.revision)
            else:
                final.pop(place, None)  # rows are in the order of their revisions
            final[place] = write
        puts = [
            Row(write.change.revision, name, key, write.expires_at, self._stored(write))
            for (name, key), write in final.items()
            if write.change.type != "DELETED"
        ]
        db.commit(removes, puts, batch[-1].change.revision)

    def _shut(self) -> None:
        if self._db is not None:
            self._db.close()
            self._db = None

    # Background

    async def _expire(self) -> None:
        while True:
            await asyncio.sleep(EXPIRY_SWEEP_SECONDS)
            try:
                due = EXPIRY_BATCH
                while due == EXPIRY_BATCH:
                    started = time.monotonic()
                    due = await self.expire_due()
                    await asyncio.sleep(EXPIRY_REST * (time.monotonic() - started))
            except StoreUnavailable:
                continue  # logged where it failed; tried again at the next sweep

    async def expire_due(self) -> int:
        """Remove one batch of records whose time has come and return how many there were."""
        now = self._now()
        due: list[tuple[float, int, str, str]] = []
        while self._expiries and self._expiries[0][0] <= now and len(due) < EXPIRY_BATCH:
            due.append(heapq.heappop(self._expiries))
        writes = []
        for _, revision, name, key in due:
            record = self.collection(name).get(key)
            if record is None or record.revision != revision or (name, key) in self._latest:
                continue  # gone, or written again, which started its time anew
            writes.append(self._write(name, key, record, Remove(without_revision(record.data))))
        try:
            for write in writes:
                await write
        except StoreUnavailable:
            for entry in due:
                heapq.heappush(self._expiries, entry)
            raise
        return len(due)

    async def _compact(self) -> None:
        before = self._revision
        while True:
            await asyncio.sleep(self._compaction_seconds)
            for collection in self._collections.values():
                collection.compact(before)
            before = self._revision

    async def _checkpoint(self) -> None:
        seen = self._next
        while True:
            await asyncio.sleep(CHECKPOINT_SECONDS)
            worth, seen = BUSY_BYTES if self._next > seen else CHECKPOINT_BYTES, self._next
            if not self._healthy:
                await self._probe()
            try:
                await asyncio.to_thread(checkpoint, self._path, worth)
            except (OSError, sqlite3.Error) as error:
                _log.warning("Checkpoint failed", extra={"path": str(self._path), "error": str(error)})

    async def _probe(self) -> None:
        """Try a write that changes nothing, so that a disk with room again is noticed without a client's write."""
        try:
            await asyncio.get_running_loop().run_in_executor(self._thread, self._touch)
        except (OSError, sqlite3.Error):
            return  # still as it was, which was logged
        self._healthy = True

    def _touch(self) -> None:
        if self._db is not None:
            self._db.touch()


def _nothing() -> None:
    """Show that the thread is not held up."""

"""Default store: records in memory, durable in SQLite with one fsync per batch of concurrent writes.

A write gets its revision when it is decided, becomes durable with its batch, and only then visible and acknowledged.
Decisions are based on pending writes, so no update is lost between two batches. When a batch fails, every pending write
fails with it, because later decisions may depend on earlier ones; readers are not affected, and the next write retries.
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

from apiserver_stub.storage.base import Keep, Outcome, Probe, Put, Remove, StoreRejected, StoreUnavailable
from apiserver_stub.storage.codec import StorageCodec, UndecodableObject
from apiserver_stub.storage.collection import Collection, UnreadableValue
from apiserver_stub.storage.database import Database, Row, checkpoint
from apiserver_stub.storage.encryption import DecryptionError
from apiserver_stub.storage.record import Change, Record, with_revision, without_revision
from apiserver_stub.storage.rereading import reread

_log = logging.getLogger(__name__)

EXPIRY_SWEEP_SECONDS = 1.0
EXPIRY_BATCH = 100
EXPIRY_REST = 1.0
"""Pause after each batch, as a multiple of its duration."""
_FEW_EXPIRIES = 4096
"""Entries of the heap of expiries for which it is not searched for outdated ones."""
CHECKPOINT_SECONDS = 2.0
CHECKPOINT_BYTES = 4 << 20
"""A smaller WAL is not checkpointed."""
BUSY_BYTES = 64 << 20
"""Limit of the WAL while writes are in progress, which a checkpoint delays."""


class _Write:
    __slots__ = ("_waiting", "change", "collection", "expires_at", "transformer")

    def __init__(self, collection: str, change: Change, expires_at: float | None) -> None:
        self.collection, self.change, self.expires_at = collection, change, expires_at
        self.transformer = b""
        self._waiting: list[asyncio.Future[Record]] = []

    def done(self, loop: asyncio.AbstractEventLoop) -> asyncio.Future[Record]:
        """Return a future that is resolved once the write is durable; each waiter may cancel its own."""
        waiting: asyncio.Future[Record] = loop.create_future()
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
                waiting.exception()  # Mark it as retrieved: the client may have disconnected.


class SqliteStore:
    """Store in one SQLite file.

    Expired records are found through a heap, not by a scan.

    :param codec: codec of stored values; without one they are stored in their served form.
    :param compaction_seconds: history is retained for one to two intervals; with 0 only its size is limited.
    :param now: clock in seconds since the epoch; ``None`` is that of the host.
    """

    def __init__(
        self,
        path: Path,
        *,
        codec: StorageCodec | None = None,
        compaction_seconds: float = 0.0,
        now: Callable[[], float] | None = None,
    ) -> None:
        self._path, self._now, self._codec = path, now or time.time, codec
        self._compaction_seconds = compaction_seconds
        self._collections: dict[str, Collection] = {}
        self._revision = 0  # Latest visible revision.
        self._next = 0  # Latest assigned revision.
        self._latest: dict[tuple[str, str], _Write] = {}  # Latest pending write by collection and key.
        self._queue: list[_Write] = []
        self._expiries: list[tuple[float, int, str, str]] = []
        self._most_expiries = _FEW_EXPIRIES
        self._healthy = True  # Whether the latest batch was written.
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="store")
        self._db: Database | None = None
        self._flushing: asyncio.Task[None] | None = None
        self._tasks: list[asyncio.Task[None]] = []

    async def open(self) -> None:
        """Create or load the file and start the background tasks.

        :raises StoreUnavailable: the file cannot be opened or is not a database.
        """
        loop = self._loop = asyncio.get_running_loop()
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
        """Return whether the latest write was durable."""
        return self._healthy

    def probes(self) -> Mapping[str, Probe]:
        return {"etcd": self._check, "etcd-readiness": self._check}

    async def _check(self, seconds: float) -> str:
        """Check that writes succeed and that the writer thread responds in time."""
        if not self._healthy:
            return "writes fail"
        try:
            async with asyncio.timeout(seconds):
                await asyncio.get_running_loop().run_in_executor(self._thread, _nothing)
        except TimeoutError:
            return "context deadline exceeded"
        return ""

    async def catch_up(self, name: str, revision: int = 0) -> bool:
        """Return immediately: this process is the only writer."""
        return revision <= self.revision

    async def is_assigned(self, name: str, revision: int) -> bool:
        return revision <= self.revision

    async def count(self, name: str) -> int:
        return len(self.collection(name))

    async def sizes(self) -> Mapping[str, int]:
        try:
            return {self._path.name: (await asyncio.to_thread(self._path.stat)).st_size}
        except OSError as error:
            raise StoreUnavailable(str(error)) from error

    async def reread(self) -> None:
        if self._codec is not None:
            for collection in list(self._collections.values()):
                await reread(self._codec, collection, lambda: self._revision)

    def collection(self, name: str) -> Collection:
        found = self._collections.get(name)
        if found is None:
            found = self._collections[name] = Collection(name, self._revision)
        return found

    def is_shared(self, name: str) -> bool:
        return False

    async def update(self, name: str, key: str, decide: Callable[[Record | None], Outcome]) -> Record:
        pending, collection = self._latest.get((name, key)), self.collection(name)
        if (unread := collection.unreadable.get(key)) is not None:
            raise StoreRejected(unread.problem)
        if pending is None:
            current = collection.get(key)
        else:
            current = None if pending.change.type == "DELETED" else pending.change.record
        try:
            outcome = decide(current)
        except Exception:
            if pending is not None:
                # An error because of a pending write must not be reported before it is durable.
                await pending.done(self._loop)
            raise
        if isinstance(outcome, Keep) and current is not None and pending is None and self._is_stale(name, key):
            outcome = Put(without_revision(current.data), outcome.ttl_seconds)
        if isinstance(outcome, Put) and self._codec is not None and (problem := self._codec.encryption.problem(name)):
            raise StoreRejected(f"failed to encrypt: {problem}")
        if not isinstance(outcome, Keep):
            return await self._write(name, key, current, outcome)
        if pending is not None:
            await pending.done(self._loop)  # A response must be durable.
        if current is None:
            raise LookupError(key)
        return current

    async def remove_unreadable(self, name: str, key: str) -> None:
        unread = self.collection(name).unreadable[key]
        try:
            await asyncio.get_running_loop().run_in_executor(self._thread, self._remove_row, unread.revision)
        except (OSError, sqlite3.Error) as error:
            raise StoreUnavailable(f"write to {self._path.name}: {error}") from error
        self.collection(name).unreadable.pop(key, None)

    async def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if self._flushing is not None:
            await self._flushing
        await asyncio.get_running_loop().run_in_executor(self._thread, self._close_database)
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
            self._flushing = self._loop.create_task(self._flush(), name="store/flush")
        return write.done(self._loop)

    async def _flush(self) -> None:
        try:
            while self._queue:
                await asyncio.sleep(0)  # Requests that are ready join the batch.
                batch, self._queue = self._queue, []
                try:
                    await self._loop.run_in_executor(self._thread, self._commit, batch)
                except (OSError, sqlite3.Error) as error:
                    self._healthy = False
                    self._fail(batch, error)
                else:
                    self._healthy = True
                    self._publish(batch)
        finally:
            self._flushing = None

    def _publish(self, batch: list[_Write]) -> None:
        by_collection: dict[Collection, list[Change]] = {}
        for write in batch:
            change, collection = write.change, self.collection(write.collection)
            key = change.record.key
            by_collection.setdefault(collection, []).append(change)
            if self._latest.get((write.collection, key)) is write:
                del self._latest[write.collection, key]
            encrypted_by = collection.encrypted_by
            if write.transformer and change.type != "DELETED":
                encrypted_by[key] = write.transformer
            elif encrypted_by:
                encrypted_by.pop(key, None)
            if write.expires_at is not None:
                heapq.heappush(self._expiries, (write.expires_at, change.revision, write.collection, key))
        self._revision = batch[-1].change.revision
        for collection, changes in by_collection.items():
            collection.publish(changes)
        for write in batch:
            write.succeed()

    def _fail(self, batch: list[_Write], error: Exception) -> None:
        _log.error("Failed to write to store", extra={"path": str(self._path), "writes": len(batch)}, exc_info=error)
        failed = batch + self._queue
        self._queue = []
        self._latest.clear()
        for write in failed:
            write.fail(StoreUnavailable(f"write to {self._path.name}: {error}"))

    # Run by the store's thread

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
        """Return the record of a row; an unreadable one is recorded in the collection, and ``None`` returned."""
        codec, collection = self._codec, self.collection(name)
        if stored[:1] == b"{" and (codec is None or not codec.encryption.rules.rules):
            return Record(key, revision, stored)
        try:
            if codec is None:
                raise DecryptionError("the stored data is encrypted")
            data, transformer = codec.read(name, key, stored)
        except DecryptionError as error:
            _log.error("Failed to decode stored object", extra={"collection": name, "key": key, "err": error})
            collection.unreadable[key] = UnreadableValue(
                revision, stored, str(error), isinstance(error, UndecodableObject)
            )
            return None
        collection.unreadable.pop(key, None)
        if transformer.identity:
            collection.encrypted_by[key] = transformer.identity
        return Record(key, revision, with_revision(data, revision))

    def _is_stale(self, name: str, key: str) -> bool:
        codec = self._codec
        return codec is not None and codec.is_stale(name, self.collection(name).encrypted_by.get(key, b""))

    def _stored(self, write: _Write) -> bytes:
        """Return the stored value of a write."""
        codec, record = self._codec, write.change.record
        if codec is None or codec.plain(write.collection):
            return record.data
        stored, transformer = codec.write(write.collection, record.key, without_revision(record.data))
        write.transformer = transformer.identity
        return stored

    def _commit(self, batch: list[_Write]) -> None:
        if (db := self._db) is None:
            raise sqlite3.ProgrammingError("store is closed")
        final: dict[tuple[str, str], _Write] = {}
        removes = []
        for write in batch:
            location, previous = (write.collection, write.change.record.key), write.change.previous
            if location not in final and previous is not None:  # Only the last write to a key is stored.
                removes.append(previous.revision)
            else:
                final.pop(location, None)  # Rows are ordered by revision.
            final[location] = write
        puts = [
            Row(write.change.revision, name, key, write.expires_at, self._stored(write))
            for (name, key), write in final.items()
            if write.change.type != "DELETED"
        ]
        db.commit(removes, puts, batch[-1].change.revision)

    def _remove_row(self, revision: int) -> None:
        if (db := self._db) is None:
            raise sqlite3.ProgrammingError("store is closed")
        db.commit([revision], [], db.revision())

    def _close_database(self) -> None:
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
                continue  # Logged by the failed batch; retried at the next sweep.

    async def expire_due(self) -> int:
        """Delete one batch of expired records and return its size."""
        if len(self._expiries) > self._most_expiries:
            self._drop_outdated_expiries()
        now = self._now()
        due: list[tuple[float, int, str, str]] = []
        while self._expiries and self._expiries[0][0] <= now and len(due) < EXPIRY_BATCH:
            due.append(heapq.heappop(self._expiries))
        writes = []
        for _, revision, name, key in due:
            record = self.collection(name).get(key)
            if record is None or record.revision != revision or (name, key) in self._latest:
                continue  # Deleted, or rewritten with a new expiry.
            writes.append(self._write(name, key, record, Remove(without_revision(record.data))))
        try:
            for write in writes:
                await write
        except StoreUnavailable:
            for entry in due:
                heapq.heappush(self._expiries, entry)
            raise
        return len(due)

    def _drop_outdated_expiries(self) -> None:
        """Drop the entries of records that were deleted or rewritten; amortized, this takes constant time per write."""
        self._expiries = [entry for entry in self._expiries if self._is_current(*entry[1:])]
        heapq.heapify(self._expiries)
        self._most_expiries = max(_FEW_EXPIRIES, 2 * len(self._expiries))

    def _is_current(self, revision: int, name: str, key: str) -> bool:
        record = self.collection(name).get(key)
        return record is not None and record.revision == revision

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
                _log.warning("SQLite WAL checkpoint failed", extra={"path": str(self._path), "error": str(error)})

    async def _probe(self) -> None:
        """Test a write, so that recovery from a full disk is noticed without a client's write."""
        try:
            await asyncio.get_running_loop().run_in_executor(self._thread, self._touch)
        except (OSError, sqlite3.Error):
            return  # Unchanged; logged by the failed batch.
        self._healthy = True

    def _touch(self) -> None:
        if self._db is not None:
            self._db.touch()


def _nothing() -> None:
    """Do nothing; used to test that the writer thread responds."""

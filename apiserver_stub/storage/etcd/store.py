"""Store in an etcd cluster, which several servers may share: writes go to etcd, reads are served from memory.

One watch of the complete prefix updates memory in order of revision. A write is acknowledged once it is in memory, so
its writer sees it: a write of this server immediately if all earlier revisions are, else once the watch has delivered
them. A reader that must see the writes of other servers calls :meth:`EtcdStore.catch_up` first. While the cluster is
unavailable, writes and these reads fail, and others return the last known state; the watch resumes at its last revision
as soon as the cluster responds.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from typing import Any

from apiserver_stub.storage.base import Keep, Outcome, Probe, Put, Remove, StoreRejected, StoreUnavailable
from apiserver_stub.storage.codec import StorageCodec, UndecodableObject
from apiserver_stub.storage.collection import Collection, UnreadableValue
from apiserver_stub.storage.encryption import DecryptionError
from apiserver_stub.storage.etcd.client import EtcdClient, HistoryCompacted, LeaseExpired, Watching, prefix_end
from apiserver_stub.storage.etcd.compaction import Compaction
from apiserver_stub.storage.etcd.leases import Leases
from apiserver_stub.storage.etcd.progress import Progress
from apiserver_stub.storage.etcd.proto import kv_pb2 as kv
from apiserver_stub.storage.etcd.proto import rpc_pb2 as rpc
from apiserver_stub.storage.etcd.values import StoredValues
from apiserver_stub.storage.layout import Layout
from apiserver_stub.storage.record import Change, Record, with_revision, without_revision
from apiserver_stub.storage.rereading import reread
from nodeagent.base.aio import Clock, SystemClock

_log = logging.getLogger(__name__)

START_SECONDS = 60.0
"""Start-up timeout while the cluster does not respond."""
_PAGE = 2_000
_PAUSE_SECONDS = (0.05, 1.0)
"""Minimum and maximum back-off between connection attempts."""
_OWN_WRITE_SECONDS = 10.0
_REVISION_SECONDS = 3.0
_BARRIER_SECONDS = 3.0
"""Timeout of a consistent read: for the response of the cluster, and then for the watch."""
_UNAVAILABLE_SECONDS = 1.0
"""Time after a failure for which consistent reads fail without a request."""
_STALL_SECONDS = 0.05
_LAG_SECONDS, _RENEWAL_SECONDS = 0.5, 2.0
"""Time for which a request waits for a revision before the watch is renewed, and minimum age of the renewed watch."""
_LEASE_TRIES = 3


class EtcdStore:
    """Store in an etcd cluster.

    :param layout: the collections of this store and their full keys.
    :param root: directory to watch if it is a single one; the prefix by default.
    :param compaction_seconds: interval of compactions, coordinated between servers; 0 disables them.
    """

    def __init__(
        self,
        client: EtcdClient,
        layout: Layout,
        codec: StorageCodec,
        *,
        root: str = "",
        reuse_seconds: int = 60,
        compaction_seconds: float = 300.0,
        clock: Clock | None = None,
    ) -> None:
        clock = clock or SystemClock()
        self._client, self._layout, self._codec = client, layout, codec
        self._root = (root or f"{layout.prefix}/").encode()
        self._leases = Leases(client.grant, reuse_seconds, clock)
        self._compaction = Compaction(
            client, self._compact_history, lambda revision: self._follow(revision, None), compaction_seconds, clock
        )
        self._collections: dict[str, Collection] = {}
        self._progress = Progress()
        self._watching: Watching | None = None
        self._watched_since = 0.0
        """Loop time of the first response of :attr:`_watching`."""
        self._following: asyncio.Task[None] | None = None
        self._values = StoredValues(codec, layout)
        self._written: dict[tuple[bytes, bytes], bytes] = {}  # Data of own writes by full key and stored value.
        self._removed: dict[tuple[bytes, int], bytes] = {}  # Last state of own deletions by full key and revision.
        self._own: dict[int, tuple[str, str, kv.Event] | None] = {}  # Own writes by revision that follow a missing one.
        self._writes: set[asyncio.Task[Any]] = set()
        self._barriers: list[asyncio.Task[bool]] = []  # The barrier in progress and its successor.
        self._unavailable_until = 0.0
        self._tasks: list[asyncio.Task[None]] = []

    async def open(self) -> None:
        """Load all records and start the watch.

        :raises StoreUnavailable: the cluster did not respond for a minute.
        """
        loop = asyncio.get_running_loop()
        end, logged = loop.time() + START_SECONDS, False
        while True:
            try:
                await self._load()
                break
            except (StoreUnavailable, HistoryCompacted) as error:
                if loop.time() > end:
                    raise StoreUnavailable(f"{', '.join(self._client.urls)}: {error}") from error
                if not logged:
                    _log.warning(
                        "Failed to connect to etcd, will retry", extra={"servers": self._client.urls, "err": error}
                    )
                    logged = True
                await asyncio.sleep(_PAUSE_SECONDS[1] / 4)
        self._tasks.append(loop.create_task(self._watch(), name="store/watch"))
        if self._compaction.seconds:
            self._tasks.append(loop.create_task(self._compaction.run(), name="store/compact"))

    @property
    def revision(self) -> int:
        return self._progress.revision

    def revision_of(self, name: str) -> int:
        return self._progress.revision

    def collection(self, name: str) -> Collection:
        found = self._collections.get(name)
        if found is None:
            found = self._collections[name] = Collection(name, self._progress.revision)
        return found

    async def close(self) -> None:
        running: list[asyncio.Task[Any]] = [*self._tasks, *self._barriers, *self._writes]
        if self._following is not None:
            running.append(self._following)
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)
        await self._client.close()

    def is_shared(self, name: str) -> bool:
        return True

    # Writing

    async def update(self, name: str, key: str, decide: Callable[[Record | None], Outcome]) -> Record:
        collection = self.collection(name)
        if (unread := collection.unreadable.get(key)) is not None:
            raise StoreRejected(unread.problem)
        current, live = collection.get(key), False
        while True:
            try:
                outcome = decide(current)
            except Exception:
                if live:
                    raise
                found = await self._fetch(name, key)
                live = True
                if _same(found, current):
                    raise
                current = found
                continue
            if isinstance(outcome, Keep) and not live:
                found = await self._fetch(name, key)
                live = True
                if not _same(found, current):
                    current = found
                    continue
            if isinstance(outcome, Keep) and current is not None and self._is_stale(name, key):
                outcome = Put(without_revision(current.data), outcome.ttl_seconds)
            if isinstance(outcome, Keep):
                if current is None:
                    raise LookupError(key)
                await self._visible(current.revision)
                return current
            revision, response = await self._write(name, key, current, outcome)
            if revision:
                return Record(key, revision, with_revision(outcome.data, revision))
            current, live = await self._record(name, key, response), True

    async def _write(
        self, name: str, key: str, current: Record | None, outcome: Put | Remove
    ) -> tuple[int, rpc.RangeResponse | None]:
        """Write unless the key has changed; return the revision once it is visible, or 0 and the current value.

        The write is completed even if its request is cancelled: without its result, later writes would have to wait
        until the watch delivers it.
        """
        task = asyncio.get_running_loop().create_task(self._write_own(name, key, current, outcome), name="store/write")
        self._writes.add(task)
        task.add_done_callback(self._end_write)
        return await asyncio.shield(task)

    def _end_write(self, task: asyncio.Task[Any]) -> None:
        self._writes.discard(task)
        if not task.cancelled():
            task.exception()  # Nothing else retrieves that of a cancelled request.

    async def _write_own(
        self, name: str, key: str, current: Record | None, outcome: Put | Remove
    ) -> tuple[int, rpc.RangeResponse | None]:
        full_key = self._layout.full_key(name, key).encode()
        expected = current.revision if current is not None else 0
        if isinstance(outcome, Remove):
            if not expected:
                raise LookupError(key)
            self._removed[full_key, expected] = outcome.data
            try:
                revision, response = await self._client.delete(full_key, expected=expected, kind=name)
                if revision:
                    item = kv.KeyValue(key=full_key, mod_revision=revision)
                    await self._apply_own(revision, (name, key, kv.Event(type=kv.Event.DELETE, kv=item)))
                return revision, response
            finally:
                self._removed.pop((full_key, expected), None)
        if problem := self._codec.encryption.problem(name):
            raise StoreRejected(f"failed to encrypt: {problem}")
        stored, _ = self._codec.write(name, key, outcome.data)
        self._written[full_key, stored] = outcome.data
        try:
            revision, response = await self._put(name, full_key, stored, expected, outcome.ttl_seconds)
            if revision:
                item = kv.KeyValue(key=full_key, value=stored, mod_revision=revision)
                await self._apply_own(revision, (name, key, kv.Event(type=kv.Event.PUT, kv=item)))
            return revision, response
        finally:
            self._written.pop((full_key, stored), None)

    async def remove_unreadable(self, name: str, key: str) -> None:
        full_key, unreadable = self._layout.full_key(name, key).encode(), self.collection(name).unreadable
        while True:
            revision, _ = await self._client.delete(full_key, expected=unreadable[key].revision, kind=name)
            if revision:
                await self._visible(revision)
                return
            await self.catch_up(name)

    async def _put(
        self, name: str, full_key: bytes, stored: bytes, expected: int, ttl_seconds: int | None
    ) -> tuple[int, rpc.RangeResponse | None]:
        for _ in range(_LEASE_TRIES):
            lease = await self._leases.lease(ttl_seconds) if ttl_seconds else 0
            try:
                return await self._client.put(full_key, stored, expected=expected, lease=lease, kind=name)
            except LeaseExpired:
                self._leases.drop(lease)
        raise StoreUnavailable("leases expire before they are used")

    async def _apply_own(self, revision: int, written: tuple[str, str, kv.Event]) -> None:
        """Apply a write of this server after all earlier revisions, and return once it is visible.

        :raises StoreUnavailable: earlier ones of other servers are missing.
        """
        self._follow(revision, written)
        try:
            await self._visible(revision)
        finally:
            self._own.pop(revision, None)  # The watch delivers it.

    def _follow(self, revision: int, written: tuple[str, str, kv.Event] | None) -> None:
        """Apply a write of this server once all earlier revisions are visible; ``None`` is one outside of the root."""
        if revision > self.revision:
            self._own[revision] = written
            self._apply_next_own()

    def _apply_next_own(self) -> None:
        """Apply the writes of this server that directly follow the visible revision."""
        while (following := self.revision + 1) in self._own:
            written = self._own.pop(following)
            if written is not None:
                name, key, event = written
                if (change := self._change(name, key, event, {})) is not None:
                    self.collection(name).publish([change])
            self._progress.reached(following)

    def _reached(self, revision: int) -> None:
        """Make *revision*, up to which the watch has delivered all changes, and own writes that follow it visible."""
        self._progress.reached(revision)
        while self._own and (earliest := next(iter(self._own))) <= self.revision:
            del self._own[earliest]
        self._apply_next_own()

    async def _visible(self, revision: int) -> None:
        if not await self._wait(revision, _OWN_WRITE_SECONDS):
            raise StoreUnavailable("the write succeeded, but has not returned through the watch yet")

    async def _wait(self, revision: int, seconds: float) -> bool:
        """Return whether *revision* becomes visible within *seconds*."""
        if await self._progress.wait(revision, min(seconds, _LAG_SECONDS)):
            return True
        self._renew_watch()
        return await self._progress.wait(revision, seconds - _LAG_SECONDS)

    def _renew_watch(self) -> None:
        """Open the watch again, after the visible revision, if it lags behind.

        An overloaded server reads one response of a watch per iteration of its event loop, so that thousands of them
        may be in transit. Most are of own writes, which are visible, and etcd sends the others to a new watch in
        batches.
        """
        age = asyncio.get_running_loop().time() - self._watched_since
        if self._watching is not None and self._following is not None and age >= _RENEWAL_SECONDS:
            self._watching = None
            self._following.cancel()

    async def _fetch(self, name: str, key: str) -> Record | None:
        """Return the current record from the cluster."""
        full_key = self._layout.full_key(name, key).encode()
        return await self._record(name, key, await self._client.range(full_key, kind=name))

    async def _record(self, name: str, key: str, response: rpc.RangeResponse | None) -> Record | None:
        if response is None or not response.kvs:
            return None
        found = response.kvs[0]
        known = self.collection(name).get(key)
        if known is not None and known.revision == found.mod_revision:
            return known
        await self._values.prepare([found])
        try:
            data, _ = self._values.read(name, key, found)
        except DecryptionError as error:
            raise StoreRejected(str(error)) from error
        return Record(key, found.mod_revision, with_revision(data, found.mod_revision))

    def _is_stale(self, name: str, key: str) -> bool:
        return self._codec.is_stale(name, self.collection(name).encrypted_by.get(key, b""))

    # Consistent reads

    async def catch_up(self, name: str, revision: int = 0) -> bool:
        if revision:
            return await self._progress.wait(revision, _REVISION_SECONDS)
        loop = asyncio.get_running_loop()
        if loop.time() < self._unavailable_until:
            return False
        self._barriers = [task for task in self._barriers if not task.done()]
        if len(self._barriers) < 2:  # The one in progress may have read before this call.
            task = loop.create_task(self._barrier(tuple(self._barriers)), name="store/barrier")
            self._barriers.append(task)
        return await asyncio.shield(self._barriers[-1])

    async def is_assigned(self, name: str, revision: int) -> bool:
        if revision <= self.revision:
            return True
        try:
            response = await self._client.range(self._health_key, seconds=_BARRIER_SECONDS)
        except (StoreUnavailable, StoreRejected):
            return True
        return revision <= response.header.revision

    async def _barrier(self, before: tuple[asyncio.Task[bool], ...]) -> bool:
        """Wait until the revision of the cluster after the start of this call is visible; return whether it is."""
        if before:
            await asyncio.wait(before)
        try:
            response = await self._client.range(self._health_key, seconds=_BARRIER_SECONDS)
        except (StoreUnavailable, StoreRejected):
            self._unavailable_until = asyncio.get_running_loop().time() + _UNAVAILABLE_SECONDS
            return False
        revision = response.header.revision
        if await self._progress.wait(revision, _STALL_SECONDS):
            return True
        if self._watching is not None:
            # Another client writes under a different prefix, whose events the watch does not receive.
            await self._watching.request_progress()
        return await self._wait(revision, _BARRIER_SECONDS)

    # Watching

    async def _load(self) -> None:
        """Replace the records in memory by those of the cluster."""
        key, end, revision = self._root, prefix_end(self._root), 0
        found: dict[str, dict[str, Record]] = {}
        for collection in self._collections.values():
            collection.encrypted_by.clear()
            collection.unreadable.clear()
        while True:
            page = await self._client.range(key, end, limit=_PAGE, revision=revision)
            revision = revision or page.header.revision
            await self._values.prepare(page.kvs)
            for item in page.kvs:
                if (location := self._layout.find(item.key.decode(errors="replace"))) is not None:
                    name, own_key = location
                    if (record := self._read(name, own_key, item)) is not None:
                        found.setdefault(name, {})[own_key] = record
            if not page.more:
                break
            key = page.kvs[-1].key + b"\0"
        self._progress.reached(revision)
        for name in {*self._layout.collections, *self._collections, *found}:
            self.collection(name).reset(found.get(name, {}).values(), revision)

    def _read(self, name: str, key: str, item: kv.KeyValue) -> Record | None:
        """Return the record of *item*; an unreadable one is recorded in the collection, and ``None`` returned."""
        collection, revision = self.collection(name), item.mod_revision
        data = self._written.get((item.key, item.value))
        try:
            if data is None:
                data, transformer = self._values.read(name, key, item)
                encrypted_by = transformer.identity
            else:
                encrypted_by = self._codec.encryption.writer(name).identity
        except DecryptionError as error:
            _log.error("Failed to decode stored object", extra={"collection": name, "key": key, "err": error})
            collection.unreadable[key] = UnreadableValue(
                revision, item.value, str(error), isinstance(error, UndecodableObject)
            )
            return None
        collection.unreadable.pop(key, None)
        if encrypted_by:
            collection.encrypted_by[key] = encrypted_by
        elif collection.encrypted_by:
            collection.encrypted_by.pop(key, None)
        return Record(key, revision, with_revision(data, revision))

    async def _watch(self) -> None:
        """Apply the changes until cancelled."""
        while True:
            self._following = asyncio.get_running_loop().create_task(self._follow_changes(), name="store/changes")
            try:
                await asyncio.wait([self._following])
            finally:
                self._following.cancel()
            if not self._following.cancelled():
                self._following.result()

    async def _follow_changes(self) -> None:
        """Apply the changes until cancelled, also to renew the watch."""
        pause, reload = _PAUSE_SECONDS[0], False
        while True:
            try:
                if reload:
                    await self._load()
                    reload = False
                async with self._client.watch(self._root, prefix_end(self._root), self.revision + 1) as watching:
                    async for response in watching.responses():
                        if self._watching is None:
                            pause, self._watching = _PAUSE_SECONDS[0], watching
                            self._watched_since = asyncio.get_running_loop().time()
                        await self._values.prepare(event.kv for event in response.events)
                        self._apply(response)
            except HistoryCompacted:
                _log.warning("Etcd history was compacted, reloading")
                reload = True
                continue
            except StoreUnavailable as error:
                _log.warning("watch chan error: etcd watch closed", extra={"err": error})
            except Exception:  # A defect; the current records are kept until they are reloaded.
                _log.exception("Failed to process etcd watch, reloading")
                reload = True
            finally:
                self._watching = None
            await asyncio.sleep(pause)
            pause = min(2 * pause, _PAUSE_SECONDS[1])

    def _apply(self, response: rpc.WatchResponse) -> None:
        """Apply the events of a watch response."""
        if not response.events:
            if not response.created:
                self._reached(response.header.revision)
            return
        changes: dict[str, list[Change]] = {}
        fresh: dict[tuple[str, str], Record | None] = {}
        for event in response.events:
            item = event.kv
            if item.mod_revision <= self.revision:
                continue  # A write of this server.
            location = self._layout.find(item.key.decode(errors="replace"))
            if location is not None and (change := self._change(*location, event, fresh)) is not None:
                changes.setdefault(location[0], []).append(change)
        newest = response.events[-1].kv.mod_revision
        for name in changes:
            self.collection(name)  # A new collection starts at the revision before these.
        for name, found in changes.items():
            self.collection(name).publish(found)
        self._reached(newest)

    def _change(
        self, name: str, key: str, event: kv.Event, fresh: dict[tuple[str, str], Record | None]
    ) -> Change | None:
        """Return the change of *event*; *fresh* holds the results of earlier events of the same response."""
        item, collection = event.kv, self.collection(name)
        previous = fresh[name, key] if (name, key) in fresh else collection.get(key)
        if event.type == kv.Event.PUT:
            record = self._read(name, key, item)
            if record is not None:
                fresh[name, key] = record
                return Change("ADDED" if previous is None else "MODIFIED", record, previous)
        else:
            collection.unreadable.pop(key, None)
            collection.encrypted_by.pop(key, None)
        if previous is None:
            return None
        # Deleted, or unreadable, which is the same for watchers.
        fresh[name, key] = None
        last = self._removed.get((item.key, previous.revision)) or without_revision(previous.data)
        return Change("DELETED", Record(key, item.mod_revision, with_revision(last, item.mod_revision)), previous)

    async def reread(self) -> None:
        for collection in list(self._collections.values()):
            await reread(self._codec, collection, lambda: self.revision)

    def _compact_history(self, revision: int) -> None:
        for collection in self._collections.values():
            collection.compact(revision)

    # Health and size

    @property
    def _health_key(self) -> bytes:
        return f"{self._layout.prefix}/health".encode()

    def probes(self) -> Mapping[str, Probe]:
        return {"etcd": self._check, "etcd-readiness": self._check}

    async def _check(self, seconds: float) -> str:
        try:
            await self._client.range(self._health_key, seconds=seconds)
        except (StoreUnavailable, StoreRejected) as error:
            return f"error getting data from etcd: {error}"
        return ""

    async def count(self, name: str) -> int:
        directory = self._layout.directory(name).encode()
        return int((await self._client.range(directory, prefix_end(directory), count_only=True, kind=name)).count)

    async def sizes(self) -> Mapping[str, int]:
        return await self._client.sizes()


def _same(one: Record | None, other: Record | None) -> bool:
    return (one.revision if one else 0) == (other.revision if other else 0)

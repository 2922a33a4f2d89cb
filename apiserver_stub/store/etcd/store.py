"""The store in an etcd cluster, which several servers may share: written there, read from memory.

One watch of everything under the prefix feeds memory, in the order of revisions. A write is answered once it has come
back through that watch, so its writer sees it; a reader that must not miss the writes of other servers first lets
memory catch up (:meth:`EtcdStore.catch_up`). When the cluster does not answer, writes fail and readers go on with what
was seen last; the watch goes on where it stopped as soon as there is a cluster again.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping

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
from apiserver_stub.store.etcd.client import EtcdClient, HistoryGone, LeaseGone, Watching, prefix_end
from apiserver_stub.store.etcd.compaction import Compaction
from apiserver_stub.store.etcd.leases import Leases
from apiserver_stub.store.etcd.progress import Progress
from apiserver_stub.store.etcd.proto import kv_pb2 as kv
from apiserver_stub.store.etcd.proto import rpc_pb2 as rpc
from apiserver_stub.store.layout import Layout
from nodeagent.base.aio import Clock, SystemClock

_log = logging.getLogger(__name__)

START_SECONDS = 60.0
"""For so long a cluster that does not answer is waited for at the start."""
_PAGE = 2_000
_PAUSE_SECONDS = (0.05, 1.0)
"""Between two tries to reach the cluster: the shortest and the longest."""
_OWN_WRITE_SECONDS = 10.0
_REVISION_SECONDS = 3.0
_BARRIER_SECONDS = 1.0
_STALL_SECONDS = 0.05
_LEASE_TRIES = 3


class EtcdStore:
    """A :class:`~apiserver_stub.store.base.Store` in an etcd cluster.

    :param layout: the collections that are kept here, and where.
    :param root: the folder under the prefix that is watched, when it is only one.
    :param compaction_seconds: time between two compactions, of all servers together; 0 leaves that to others.
    """

    def __init__(
        self,
        client: EtcdClient,
        layout: Layout,
        coding: Coding,
        *,
        root: str = "",
        reuse_seconds: int = 60,
        compaction_seconds: float = 300.0,
        clock: Clock | None = None,
    ) -> None:
        clock = clock or SystemClock()
        self._client, self._layout, self._coding = client, layout, coding
        self._root = (root or f"{layout.prefix}/").encode()
        self._leases = Leases(client.grant, reuse_seconds, clock)
        self._compaction = Compaction(client, self._forget, compaction_seconds, clock)
        self._collections: dict[str, Collection] = {}
        self._progress = Progress()
        self._watching: Watching | None = None
        self._written: dict[tuple[bytes, bytes], bytes] = {}  # (place, stored bytes) of own writes → their data
        self._removed: dict[tuple[bytes, int], bytes] = {}  # (place, revision removed) → the last state
        self._barriers: list[asyncio.Task[None]] = []  # the one under way, and the one that waits for it
        self._silent_until = 0.0
        self._tasks: list[asyncio.Task[None]] = []

    async def open(self) -> None:
        """Read everything and start to follow.

        :raises StoreUnavailable: the cluster did not answer for a minute.
        """
        loop = asyncio.get_running_loop()
        end, told = loop.time() + START_SECONDS, False
        while True:
            try:
                await self._load()
                break
            except (StoreUnavailable, HistoryGone) as error:
                if loop.time() > end:
                    raise StoreUnavailable(f"{', '.join(self._client.urls)}: {error}") from error
                if not told:
                    _log.warning("Store does not answer; trying on", extra={"servers": self._client.urls, "err": error})
                    told = True
                await asyncio.sleep(_PAUSE_SECONDS[1] / 4)
        self._tasks.append(loop.create_task(self._follow(), name="store/follow"))
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
        for task in (*self._tasks, *self._barriers):
            task.cancel()
        await asyncio.gather(*self._tasks, *self._barriers, return_exceptions=True)
        await self._client.close()

    # Writing

    async def update(self, name: str, key: str, decide: Callable[[Record | None], Outcome]) -> Record:
        collection = self.collection(name)
        if (unread := collection.unreadable.get(key)) is not None:
            raise StoreRefused(unread.problem)
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
            revision, there = await self._write(name, key, current, outcome)
            if revision:
                return Record(key, revision, with_revision(outcome.data, revision))
            current, live = self._record(name, key, there), True

    async def _write(
        self, name: str, key: str, current: Record | None, outcome: Put | Remove
    ) -> tuple[int, rpc.RangeResponse | None]:
        """Make the write if nobody was faster, and return its revision once it is visible, or 0 and what is there."""
        place, expected = self._layout.place(name, key).encode(), current.revision if current is not None else 0
        if isinstance(outcome, Remove):
            if not expected:
                raise LookupError(key)
            self._removed[place, expected] = outcome.data
            try:
                revision, there = await self._client.delete(place, expected=expected, kind=name)
                if revision:
                    await self._visible(revision)
                return revision, there
            finally:
                self._removed.pop((place, expected), None)
        stored, _ = self._coding.write(name, key, outcome.data)
        self._written[place, stored] = outcome.data
        try:
            revision, there = await self._put(name, place, stored, expected, outcome.ttl_seconds)
            if revision:
                await self._visible(revision)
            return revision, there
        finally:
            self._written.pop((place, stored), None)

    async def _put(
        self, name: str, place: bytes, stored: bytes, expected: int, ttl_seconds: int | None
    ) -> tuple[int, rpc.RangeResponse | None]:
        for _ in range(_LEASE_TRIES):
            lease = await self._leases.lease(ttl_seconds) if ttl_seconds else 0
            try:
                return await self._client.put(place, stored, expected=expected, lease=lease, kind=name)
            except LeaseGone:
                self._leases.drop(lease)
        raise StoreUnavailable("leases end before they are used")

    async def _visible(self, revision: int) -> None:
        if not await self._progress.wait(revision, _OWN_WRITE_SECONDS):
            raise StoreUnavailable("the write was made and has not come back yet")

    async def _fetch(self, name: str, key: str) -> Record | None:
        """Return what the cluster has now."""
        place = self._layout.place(name, key).encode()
        return self._record(name, key, await self._client.range(place, kind=name))

    def _record(self, name: str, key: str, there: rpc.RangeResponse | None) -> Record | None:
        if there is None or not there.kvs:
            return None
        found = there.kvs[0]
        known = self.collection(name).get(key)
        if known is not None and known.revision == found.mod_revision:
            return known
        try:
            data, _ = self._coding.read(name, key, found.value)
        except Unreadable as error:
            raise StoreRefused(str(error)) from error
        return Record(key, found.mod_revision, with_revision(data, found.mod_revision))

    def _is_stale(self, name: str, key: str) -> bool:
        return self._coding.is_stale(name, self.collection(name).sealed.get(key, b""))

    # Catching up

    async def catch_up(self, name: str, revision: int = 0) -> None:
        if revision:
            await self._progress.wait(revision, _REVISION_SECONDS)
            return
        loop = asyncio.get_running_loop()
        if loop.time() < self._silent_until:
            return
        self._barriers = [task for task in self._barriers if not task.done()]
        if len(self._barriers) < 2:  # the one under way may have asked before the caller came
            task = loop.create_task(self._barrier(tuple(self._barriers)), name="store/barrier")
            self._barriers.append(task)
        await asyncio.shield(self._barriers[-1])

    async def _barrier(self, before: tuple[asyncio.Task[None], ...]) -> None:
        if before:
            await asyncio.wait(before)
        try:
            answer = await self._client.range(self._health_key, seconds=_BARRIER_SECONDS)
        except (StoreUnavailable, StoreRefused):
            self._silent_until = asyncio.get_running_loop().time() + _BARRIER_SECONDS
            return
        revision = answer.header.revision
        if await self._progress.wait(revision, _STALL_SECONDS) or self._watching is None:
            return
        # Somebody writes under another prefix, which the watch does not tell of.
        await self._watching.ask_progress()
        await self._progress.wait(revision, _BARRIER_SECONDS)

    # Following

    async def _load(self) -> None:
        """Replace memory by what the cluster has now."""
        key, end, revision = self._root, prefix_end(self._root), 0
        found: dict[str, dict[str, Record]] = {}
        for collection in self._collections.values():
            collection.sealed.clear()
            collection.unreadable.clear()
        while True:
            page = await self._client.range(key, end, limit=_PAGE, revision=revision)
            revision = revision or page.header.revision
            for item in page.kvs:
                if (place := self._layout.find(item.key.decode(errors="replace"))) is not None:
                    name, of = place
                    if (record := self._read(name, of, item)) is not None:
                        found.setdefault(name, {})[of] = record
            if not page.more:
                break
            key = page.kvs[-1].key + b"\0"
        self._progress.reached(revision)
        for name in {*self._layout.collections, *self._collections, *found}:
            self.collection(name).reset(found.get(name, {}).values(), revision)

    def _read(self, name: str, key: str, item: kv.KeyValue) -> Record | None:
        """Return the record in *item*, ``None`` when it cannot be read, which is noted."""
        collection, revision = self.collection(name), item.mod_revision
        data = self._written.get((item.key, item.value))
        try:
            if data is None:
                data, sealer = self._coding.read(name, key, item.value)
                sealed = sealer.identity
            else:
                sealed = self._coding.encryption.writer(name).identity
        except Unreadable as error:
            _log.error("Stored object cannot be read", extra={"collection": name, "key": key, "err": error})
            collection.unreadable[key] = Unread(revision, item.value, str(error))
            return None
        collection.unreadable.pop(key, None)
        if sealed:
            collection.sealed[key] = sealed
        elif collection.sealed:
            collection.sealed.pop(key, None)
        return Record(key, revision, with_revision(data, revision))

    async def _follow(self) -> None:
        pause, anew = _PAUSE_SECONDS[0], False
        while True:
            try:
                if anew:
                    await self._load()
                    anew = False
                async with self._client.watch(self._root, prefix_end(self._root), self.revision + 1) as watching:
                    async for answer in watching.answers():
                        pause, self._watching = _PAUSE_SECONDS[0], watching
                        self._take(answer)
            except HistoryGone:
                _log.warning("The history of the store is gone; everything is read anew")
                anew = True
                continue
            except StoreUnavailable as error:
                _log.warning("The watch of the store has ended", extra={"err": error})
            except Exception:  # a bug, which leaves what was seen so far
                _log.exception("The watch of the store failed; everything is read anew")
                anew = True
            finally:
                self._watching = None
            await asyncio.sleep(pause)
            pause = min(2 * pause, _PAUSE_SECONDS[1])

    def _take(self, answer: rpc.WatchResponse) -> None:
        """Take over what the watch tells."""
        if not answer.events:
            if not answer.created:
                self._progress.reached(answer.header.revision)
            return
        changes: dict[str, list[Change]] = {}
        fresh: dict[tuple[str, str], Record | None] = {}
        for event in answer.events:
            item = event.kv
            place = self._layout.find(item.key.decode(errors="replace"))
            if place is not None and (change := self._change(*place, event, fresh)) is not None:
                changes.setdefault(place[0], []).append(change)
        newest = answer.events[-1].kv.mod_revision
        for name in changes:
            self.collection(name)  # a new one starts at the revision before these
        for name, found in changes.items():
            self.collection(name).publish(found)
        self._progress.reached(newest)

    def _change(
        self, name: str, key: str, event: kv.Event, fresh: dict[tuple[str, str], Record | None]
    ) -> Change | None:
        """Return what *event* changes; *fresh* has what earlier events of the same answer left."""
        item, collection = event.kv, self.collection(name)
        previous = fresh[name, key] if (name, key) in fresh else collection.get(key)
        if event.type == kv.Event.PUT:
            record = self._read(name, key, item)
            if record is not None:
                fresh[name, key] = record
                return Change("ADDED" if previous is None else "MODIFIED", record, previous)
        else:
            collection.unreadable.pop(key, None)
            collection.sealed.pop(key, None)
        if previous is None:
            return None
        # Gone, or there and not to be read, which is the same to those who watch.
        fresh[name, key] = None
        last = self._removed.get((item.key, previous.revision)) or without_revision(previous.data)
        return Change("DELETED", Record(key, item.mod_revision, with_revision(last, item.mod_revision)), previous)

    def reread(self) -> None:
        for name, collection in self._collections.items():
            found = []
            for key, unread in list(collection.unreadable.items()):
                item = kv.KeyValue(mod_revision=unread.revision, value=unread.stored)
                if (record := self._read(name, key, item)) is not None:
                    found.append(record)
            if found:
                collection.reset([*collection.select(), *found], self.revision)

    def _forget(self, revision: int) -> None:
        for collection in self._collections.values():
            collection.compact(revision)

    # Health and size

    @property
    def _health_key(self) -> bytes:
        return f"{self._layout.prefix}/health".encode()

    def probes(self) -> Mapping[str, Probe]:
        return {"etcd": self._sign_of_life, "etcd-readiness": self._sign_of_life}

    async def _sign_of_life(self, seconds: float) -> str:
        try:
            await self._client.range(self._health_key, seconds=seconds)
        except (StoreUnavailable, StoreRefused) as error:
            return f"error getting data from etcd: {error}"
        return ""

    async def count(self, name: str) -> int:
        folder = self._layout.folder(name).encode()
        return int((await self._client.range(folder, prefix_end(folder), count_only=True, kind=name)).count)

    async def sizes(self) -> Mapping[str, int]:
        return await self._client.sizes()


def _same(one: Record | None, other: Record | None) -> bool:
    return (one.revision if one else 0) == (other.revision if other else 0)

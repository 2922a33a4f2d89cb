"""Tests for the SQLite store: durability, revisions, expiry and disk failures."""

from __future__ import annotations

import asyncio
import sqlite3
import tracemalloc
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, closing
from itertools import pairwise
from pathlib import Path

import pytest

from apiserver_stub.storage import Compacted, Keep, Outcome, Put, Record, Remove, StoreUnavailable
from apiserver_stub.storage import sqlite as module
from apiserver_stub.storage.record import with_revision, without_revision
from apiserver_stub.storage.sqlite import SqliteStore

DATA = b'{"kind":"Pod","apiVersion":"v1","metadata":{"name":"%s"}}'


def put(data: bytes = DATA % b"a", ttl_seconds: int | None = None) -> Callable[[Record | None], Outcome]:
    return lambda current: Put(data, ttl_seconds)


@asynccontextmanager
async def opened(path: Path, **options: object) -> AsyncIterator[SqliteStore]:
    store = SqliteStore(path / "store.db", **options)  # type: ignore[arg-type]
    await store.open()
    try:
        yield store
    finally:
        await store.close()


def test_revision_is_added_to_metadata_and_removed_again() -> None:
    for data in (DATA % b"a", b'{"kind":"X","apiVersion":"v1","metadata":{}}'):
        spliced = with_revision(data, 42)

        assert b'"metadata":{"resourceVersion":"42"' in spliced
        assert without_revision(spliced) == data


async def test_acknowledged_writes_survive_a_restart(tmp_path: Path) -> None:
    async with opened(tmp_path) as store:
        await store.update("core/pods", "ns/a", put())
        kept = await store.update("core/pods", "ns/b", put(DATA % b"b"))
        await store.update("core/pods", "ns/a", lambda current: Remove(DATA % b"a"))
        last = store.revision

    async with opened(tmp_path) as store:
        records = store.collection("core/pods").select()
        assert [(record.key, record.revision, record.data) for record in records] == [
            ("ns/b", kept.revision, kept.data)
        ]
        assert store.revision == last
        assert (await store.update("core/pods", "ns/c", put())).revision > last


async def test_file_of_a_later_version_is_rejected_unchanged(tmp_path: Path) -> None:
    async with opened(tmp_path) as store:
        await store.update("core/pods", "ns/a", put())
    database = sqlite3.connect(tmp_path / "store.db")
    database.execute("PRAGMA user_version = 99")
    database.close()
    before = (tmp_path / "store.db").read_bytes()

    with pytest.raises(StoreUnavailable, match="later version of the API server: format 99, supported is 1"):
        async with opened(tmp_path):
            pass

    assert (tmp_path / "store.db").read_bytes() == before


async def test_file_of_the_first_release_is_upgraded(tmp_path: Path) -> None:
    async with opened(tmp_path) as store:
        await store.update("core/pods", "ns/a", put())
    database = sqlite3.connect(tmp_path / "store.db")
    database.execute("PRAGMA user_version = 0")
    database.close()

    async with opened(tmp_path) as store:
        assert [record.key for record in store.collection("core/pods").select()] == ["ns/a"]

    database = sqlite3.connect(tmp_path / "store.db")
    assert database.execute("PRAGMA user_version").fetchone() == (1,)
    database.close()


async def test_concurrent_writes_share_a_commit_with_rising_revisions(tmp_path: Path) -> None:
    async with opened(tmp_path) as store:
        records = await asyncio.gather(*(store.update("c", f"k{number}", put()) for number in range(50)))

        assert [record.revision for record in records] == sorted({record.revision for record in records})
        assert len(store.collection("c")) == 50


async def test_decision_sees_pending_writes(tmp_path: Path) -> None:
    def count(current: Record | None) -> Outcome:
        number = 0 if current is None else int(current.data.rsplit(b'"', 2)[1])
        return Put(DATA % str(number + 1).encode())

    async with opened(tmp_path) as store:
        await asyncio.gather(*(store.update("c", "k", count) for _ in range(20)))

        record = store.collection("c").get("k")
        assert record is not None
        assert b'"name":"20"' in record.data


async def test_cancelled_write_does_not_affect_concurrent_writes(tmp_path: Path) -> None:
    async with opened(tmp_path) as store:
        first = asyncio.ensure_future(store.update("pods", "a", put()))
        await asyncio.sleep(0)  # its write is pending
        other = asyncio.ensure_future(store.update("pods", "a", lambda record: Keep()))
        await asyncio.sleep(0)
        first.cancel()

        record = await other
        assert store.collection("pods").get("a") is record


async def test_latest_revision_survives_a_restart(tmp_path: Path) -> None:
    for outcome in (put(), put(b'{"metadata":{"name":"b"}}'), lambda record: Remove(DATA % b"c")):
        async with opened(tmp_path) as store:
            written = (await store.update("pods", "a", outcome)).revision
        async with opened(tmp_path) as store:
            assert store.revision == written


async def test_decision_error_writes_nothing(tmp_path: Path) -> None:
    def reject(current: Record | None) -> Outcome:
        raise ValueError("no")

    async with opened(tmp_path) as store:
        with pytest.raises(ValueError, match="no"):
            await store.update("c", "k", reject)

        assert len(store.collection("c")) == 0


async def test_keep_writes_nothing_and_returns_the_durable_record(tmp_path: Path) -> None:
    async with opened(tmp_path) as store:
        first = asyncio.ensure_future(store.update("c", "k", put()))
        await asyncio.sleep(0)
        kept = await store.update("c", "k", lambda current: Keep())

        assert first.done()
        assert kept.revision == (await first).revision == store.revision


async def test_disk_failure_affects_only_writes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with opened(tmp_path) as store:
        before = await store.update("c", "k", put())
        commit = store._commit

        def full(batch: object) -> None:
            raise sqlite3.OperationalError("database or disk is full")

        monkeypatch.setattr(store, "_commit", full)
        with pytest.raises(StoreUnavailable, match="disk is full"):
            await store.update("c", "k", put(DATA % b"changed"))
        assert store.collection("c").get("k") is before
        assert not store.healthy

        monkeypatch.setattr(store, "_commit", commit)
        after = await store.update("c", "k", put(DATA % b"changed"))
        assert after.revision > before.revision
        assert store.healthy


async def test_expiry_starts_with_the_last_write(tmp_path: Path) -> None:
    now = 1000.0
    async with opened(tmp_path, now=lambda: now) as store:
        await store.update("e", "old", put(ttl_seconds=60))
        await store.update("e", "new", put(ttl_seconds=60))
        await store.update("e", "kept", put())
        now = 1030.0
        await store.update("e", "new", put(DATA % b"again", ttl_seconds=60))

        now = 1061.0
        await store.expire_due()

        assert [record.key for record in store.collection("e").select()] == ["kept", "new"]
        change = store.collection("e").read(store.collection("e").end - 1, 1)[0]
        assert (change.type, change.record.key, change.revision) == ("DELETED", "old", store.revision)


async def test_expiry_of_rewritten_records_needs_no_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "EXPIRY_SWEEP_SECONDS", 3600.0)
    now = 1000.0
    async with opened(tmp_path, now=lambda: now) as store:
        await store.update("e", "old", put(ttl_seconds=60))
        now += 1
        tracemalloc.start()
        for _ in range(4):
            await asyncio.gather(*(store.update("e", "new", put(ttl_seconds=60)) for _ in range(2000)))
        store.collection("e").compact(store.revision)
        before, _ = tracemalloc.get_traced_memory()
        await store.expire_due()
        after, _ = tracemalloc.get_traced_memory()
        tracemalloc.stop()

        assert before - after > 500_000
        now = 1060.0
        await store.expire_due()
        assert [record.key for record in store.collection("e").select()] == ["new"]
        now = 1061.0
        await store.expire_due()
        assert len(store.collection("e")) == 0


async def test_expiry_survives_a_restart(tmp_path: Path) -> None:
    now = 1000.0
    async with opened(tmp_path, now=lambda: now) as store:
        await store.update("e", "old", put(ttl_seconds=60))

    now = 2000.0
    async with opened(tmp_path, now=lambda: now) as store:
        await store.expire_due()
        assert len(store.collection("e")) == 0


async def test_file_that_is_not_a_database_is_rejected(tmp_path: Path) -> None:
    (tmp_path / "store.db").write_bytes(b"nonsense" * 1000)
    store = SqliteStore(tmp_path / "store.db")

    with pytest.raises(StoreUnavailable, match=r"store\.db"):
        await store.open()
    await store.close()


async def test_file_is_accessible_only_to_its_owner(tmp_path: Path) -> None:
    async with opened(tmp_path):
        assert (tmp_path / "store.db").stat().st_mode & 0o077 == 0


async def test_store_of_an_earlier_schema_is_migrated(tmp_path: Path) -> None:
    db = sqlite3.connect(tmp_path / "store.db")
    db.execute(
        "CREATE TABLE objects (collection TEXT NOT NULL, key TEXT NOT NULL, revision INTEGER NOT NULL, "
        "expires_at REAL, data BLOB NOT NULL, PRIMARY KEY (collection, key))"
    )
    db.execute("INSERT INTO objects VALUES ('core/pods', 'ns/a', 7, NULL, ?)", (with_revision(DATA % b"a", 7),))
    db.commit()
    db.close()

    for _ in range(2):
        async with opened(tmp_path) as store:
            assert [record.key for record in store.collection("core/pods").select()] == ["ns/a"]
            assert store.revision >= 7


async def test_last_of_several_writes_to_a_key_is_stored(tmp_path: Path) -> None:
    async with opened(tmp_path) as store:
        await store.update("core/pods", "ns/a", put())
        await asyncio.gather(*(store.update("core/pods", "ns/a", put(DATA % b"x")) for _ in range(5)))
        newest = store.revision

    async with opened(tmp_path) as store:
        (record,) = store.collection("core/pods").select()
        assert record.revision == newest
        with closing(sqlite3.connect(tmp_path / "store.db")) as database:
            assert database.execute("SELECT count(*) FROM records").fetchone() == (1,)


@pytest.mark.row("opt.store-compaction-interval")
async def test_history_is_retained_for_one_to_two_intervals(tmp_path: Path) -> None:
    async with opened(tmp_path, compaction_seconds=0.05) as store:
        await store.update("c", "k", put())
        first = store.revision
        await store.update("c", "k", put())
        collection = store.collection("c")
        async with asyncio.timeout(10):
            while True:
                try:
                    collection.select_at(first)
                except Compacted:
                    break
                await asyncio.sleep(0.01)
        assert collection.select_at(store.revision)

    async with opened(tmp_path) as store:
        await store.update("c", "k", put())
        first = store.revision
        await store.update("c", "k", put())
        await asyncio.sleep(0.2)
        assert store.collection("c").select_at(first)


@pytest.mark.row("opt.event-ttl")
async def test_writes_are_not_blocked_by_many_expiring_records(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "EXPIRY_SWEEP_SECONDS", 3600.0)
    clock = [1000.0]
    async with opened(tmp_path, now=lambda: clock[0]) as store:
        await asyncio.gather(*(store.update("e", f"k{number}", put(ttl_seconds=60)) for number in range(2_000)))
        clock[0] += 61
        expiring, between = asyncio.create_task(_expire_all(store)), []
        while not expiring.done():
            await store.update("c", "k", put())
            between.append(len(store.collection("e")))
        await expiring

        assert len(store.collection("e")) == 0
        steps = [before - after for before, after in pairwise([2_000, *between])]
        assert max(steps) <= 2 * module.EXPIRY_BATCH  # a write waits for one or two batches, never for all
        assert len([step for step in steps if step]) >= 4


async def _expire_all(store: SqliteStore) -> None:
    while await store.expire_due():
        pass


async def test_decision_error_because_of_a_pending_write_waits_for_it(tmp_path: Path) -> None:
    def reject(current: Record | None) -> Outcome:
        assert current is None
        raise LookupError("deleted")

    async with opened(tmp_path) as store:
        await store.update("c", "k", put())
        removing = asyncio.ensure_future(store.update("c", "k", lambda current: Remove(DATA % b"a")))
        await asyncio.sleep(0)

        with pytest.raises(LookupError):
            await store.update("c", "k", reject)

        assert store.collection("c").get("k") is None
        await removing


async def test_decision_error_because_of_a_failed_write_is_not_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def reject(current: Record | None) -> Outcome:
        assert current is not None
        raise ValueError("exists")

    def fail(*_arguments: object) -> None:
        raise sqlite3.OperationalError("disk full")

    async with opened(tmp_path) as store:
        with monkeypatch.context() as broken:
            broken.setattr(module.Database, "commit", fail)
            creating = asyncio.ensure_future(store.update("c", "k", put()))
            await asyncio.sleep(0)

            with pytest.raises(StoreUnavailable):
                await store.update("c", "k", reject)
            with pytest.raises(StoreUnavailable):
                await creating


async def test_watchers_see_additions_changes_and_deletions(tmp_path: Path) -> None:
    async with opened(tmp_path) as store:
        collection = store.collection("core/pods")
        position = collection.end
        for decide in (put(), put(DATA % b"b"), lambda current: Remove(DATA % b"c"), put()):
            await store.update("core/pods", "ns/a", decide)
        changes = collection.read(position, 10)

    assert [change.type for change in changes] == ["ADDED", "MODIFIED", "DELETED", "ADDED"]
    previous = [change.previous and change.previous.revision for change in changes]
    first = changes[0].record.revision
    assert previous == [None, first, first + 1, None]
    assert without_revision(changes[2].record.data) == DATA % b"c"

"""Tests for the store in etcd: writes, concurrent writers, watches, outages and unreadable values."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import grpc
import pytest

from apiserver_stub.storage import Keep, Outcome, Put, Record, Remove, StoreUnavailable
from apiserver_stub.storage.base import StoreRejected
from apiserver_stub.storage.codec import StorageCodec
from apiserver_stub.storage.encryption import Encryption
from apiserver_stub.storage.etcd import store as module
from apiserver_stub.storage.etcd.client import EtcdClient, TlsFiles
from apiserver_stub.storage.etcd.compaction import KEY as COMPACT_KEY
from apiserver_stub.storage.etcd.proto import rpc_pb2 as rpc
from apiserver_stub.storage.etcd.store import EtcdStore
from apiserver_stub.storage.layout import Layout
from nodeagent.base.identity import Identity
from nodeagent.testing import FakeClock
from tests.unit.apiserver_stub.storage.test_sqlite_encryption import DATA as SECRET
from tests.unit.apiserver_stub.storage.test_sqlite_encryption import keys

from .fake_etcd import COMPACTED, FakeEtcd, serving

pytestmark = pytest.mark.usefixtures("grpc_thread")
PODS = "core/pods"
SECONDS = 10
"""Limit of a test: a store that does not stop would not end otherwise."""
KEY = b"/registry/pods/ns/a"
UNAVAILABLE = (grpc.StatusCode.UNAVAILABLE, "etcdserver: no leader")


def data(name: str = "a", **fields: Any) -> bytes:
    obj = {"kind": "Pod", "apiVersion": "v1", "metadata": {"name": name}, **fields}
    return json.dumps(obj, separators=(",", ":")).encode()


def put(content: bytes | None = None, ttl_seconds: int | None = None) -> Callable[[Record | None], Outcome]:
    return lambda current: Put(content or data(), ttl_seconds)


def keep(current: Record | None) -> Outcome:
    return Keep()


def remove(current: Record | None) -> Outcome:
    return Remove(data(last=True))


def load(record: Record | None) -> Any:
    return None if record is None else json.loads(record.data)


@pytest.fixture(autouse=True)
def fast(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_PAUSE_SECONDS", (0.0, 0.001))
    monkeypatch.setattr(module, "_OWN_WRITE_SECONDS", 0.2)
    monkeypatch.setattr(module, "_BARRIER_SECONDS", 0.2)
    monkeypatch.setattr(module, "_STALL_SECONDS", 0.01)


@asynccontextmanager
async def opened(
    path: Path, etcd: FakeEtcd, *, encryption: Encryption | None = None, **options: Any
) -> AsyncIterator[EtcdStore]:
    layout = Layout("/registry", {PODS: "pods", "core/secrets": "secrets", "core/events": "events"})
    codec = StorageCodec(layout, encryption or Encryption(), Identity())
    async with asyncio.timeout(SECONDS), serving(etcd, path / "etcd.sock") as url:
        store = EtcdStore(EtcdClient([url], TlsFiles()), layout, codec, compaction_seconds=0, **options)
        await store.open()
        while not etcd.watching:
            await asyncio.sleep(0)
        try:
            yield store
        finally:
            await store.close()


async def reached(store: EtcdStore, etcd: FakeEtcd) -> None:
    """Wait until the store has processed all changes."""
    while store.revision < etcd.revision:
        await asyncio.sleep(0)


def names(store: EtcdStore) -> list[str]:
    return [record.key for record in store.collection(PODS).select()]


async def test_written_objects_are_read_with_their_revision(tmp_path: Path) -> None:
    etcd = FakeEtcd()
    async with opened(tmp_path, etcd) as store:
        created = await store.update(PODS, "ns/a", put())
        updated = await store.update(PODS, "ns/a", put(data(spec={})))
        found = store.collection(PODS).get("ns/a")
        stored = json.loads(etcd.values[KEY].value)
        deleted = await store.update(PODS, "ns/a", remove)
        assert names(store) == []

    assert (created.revision, updated.revision, deleted.revision) == (2, 3, 4)
    assert load(updated) == load(found)
    assert load(found)["metadata"] == {"resourceVersion": "3", "name": "a"}
    assert stored["metadata"] == {"name": "a"}
    assert (load(deleted)["last"], load(deleted)["metadata"]["resourceVersion"]) == (True, "4")


async def test_existing_objects_are_loaded_in_pages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_PAGE", 2)
    etcd = FakeEtcd()
    for name in "abcde":
        etcd.put(f"/registry/pods/ns/{name}".encode(), data(name))
    etcd.put(b"/registry/unknown/a", b"{}")
    etcd.put(b"/other/pods/ns/x", data("x"))
    async with opened(tmp_path, etcd) as store:
        assert names(store) == [f"ns/{name}" for name in "abcde"]
        assert (store.revision, store.revision_of(PODS)) == (8, 8)
        assert await store.count(PODS) == 5
        assert list((await store.sizes()).values()) == [4096]
    revisions = [request.revision for request in etcd.requests if isinstance(request, rpc.RangeRequest)]
    assert revisions[:3] == [0, 8, 8]


async def test_changes_of_other_servers_are_visible(tmp_path: Path) -> None:
    etcd = FakeEtcd()
    async with opened(tmp_path, etcd) as store:
        collection = store.collection(PODS)
        position = collection.end
        etcd.held = True
        etcd.put(KEY, data())
        etcd.put(KEY, data(spec={}))
        etcd.put(b"/registry/unknown/a", b"{}")
        etcd.delete(KEY)
        etcd.put(KEY, data(status={}))
        etcd.release()
        await reached(store, etcd)
        changes = collection.read(position, 10)

    assert [(change.type, change.record.revision) for change in changes] == [
        ("ADDED", 2),
        ("MODIFIED", 3),
        ("DELETED", 5),
        ("ADDED", 6),
    ]
    assert [load(change.previous) and load(change.previous)["metadata"]["resourceVersion"] for change in changes] == [
        None,
        "2",
        "3",
        None,
    ]
    assert load(changes[2].record)["spec"] == {}


async def test_write_is_decided_again_after_a_concurrent_one(tmp_path: Path) -> None:
    etcd = FakeEtcd()
    async with opened(tmp_path, etcd) as store:
        await store.update(PODS, "ns/a", put())
        etcd.held = True
        etcd.put(KEY, data(spec={}))
        seen = []

        def decide(current: Record | None) -> Outcome:
            seen.append(load(current))
            if len(seen) == 2:
                etcd.release()
            return Put(data(number=len(seen)))

        record = await store.update(PODS, "ns/a", decide)

    assert [item["metadata"]["resourceVersion"] for item in seen] == ["2", "3"]
    assert load(record)["number"] == 2


async def test_removal_of_a_missing_object_is_an_error(tmp_path: Path) -> None:
    async with opened(tmp_path, FakeEtcd()) as store:
        for decide in (remove, keep):
            with pytest.raises(LookupError):
                await store.update(PODS, "ns/a", decide)


@pytest.mark.parametrize("appears", [True, False])
async def test_failed_decision_is_repeated_with_the_state_of_the_cluster(tmp_path: Path, appears: bool) -> None:
    etcd = FakeEtcd()
    async with opened(tmp_path, etcd) as store:
        etcd.held = True
        if appears:
            etcd.put(KEY, data())
        seen = []

        def decide(current: Record | None) -> Outcome:
            seen.append(current is not None)
            if current is None:
                raise LookupError("ns/a")
            return Keep()

        if not appears:
            with pytest.raises(LookupError):
                await store.update(PODS, "ns/a", decide)
            assert seen == [False]
            return
        updating = asyncio.ensure_future(store.update(PODS, "ns/a", decide))
        while len(seen) < 2:
            await asyncio.sleep(0)
        etcd.release()
        assert (await updating).revision == 2
    assert seen == [False, True]


async def test_decision_that_fails_twice_is_an_error(tmp_path: Path) -> None:
    etcd = FakeEtcd()
    async with opened(tmp_path, etcd) as store:
        etcd.held = True
        etcd.put(KEY, data())
        seen = []

        def decide(current: Record | None) -> Outcome:
            seen.append(current is not None)
            raise ValueError(str(len(seen)))

        with pytest.raises(ValueError, match="2"):
            await store.update(PODS, "ns/a", decide)
        etcd.release()
    assert seen == [False, True]


async def test_kept_object_is_that_of_the_cluster(tmp_path: Path) -> None:
    etcd = FakeEtcd()
    async with opened(tmp_path, etcd) as store:
        await store.update(PODS, "ns/a", put())
        same = await store.update(PODS, "ns/a", keep)
        etcd.held = True
        etcd.put(KEY, data(spec={}))
        seen = []

        def decide(current: Record | None) -> Outcome:
            seen.append(load(current))
            if len(seen) == 2:
                etcd.release()
            return Keep()

        changed = await store.update(PODS, "ns/a", decide)
    assert (same.revision, changed.revision, len(seen)) == (2, 3, 2)


async def test_expiring_objects_have_a_lease(tmp_path: Path) -> None:
    etcd = FakeEtcd()
    async with opened(tmp_path, etcd) as store:
        await store.update("core/events", "ns/a", put(ttl_seconds=3600))
        await store.update("core/events", "ns/b", put(ttl_seconds=3600))
        etcd.leases.clear()  # They expired early.
        etcd.leases[7] = 0
        await store.update("core/events", "ns/c", put(ttl_seconds=3600))
        leases = [etcd.values[f"/registry/events/ns/{name}".encode()].lease for name in "abc"]
    assert leases == [1, 1, 2]


async def test_leases_that_expire_immediately_make_the_store_unavailable(tmp_path: Path) -> None:
    etcd = FakeEtcd()
    etcd.failures["Txn"] = [(grpc.StatusCode.NOT_FOUND, "etcdserver: requested lease not found")] * 3
    async with opened(tmp_path, etcd) as store:
        with pytest.raises(StoreUnavailable, match="leases expire"):
            await store.update("core/events", "ns/a", put(ttl_seconds=60))
        assert etcd.calls.count("LeaseGrant") == 3


async def test_own_writes_do_not_wait_for_the_watch(tmp_path: Path) -> None:
    etcd = FakeEtcd()
    async with opened(tmp_path, etcd) as store:
        etcd.held = True
        first = store.collection(PODS).end
        created = await store.update(PODS, "ns/a", put())
        await store.update(PODS, "ns/b", put(data("b")))
        deleted = await store.update(PODS, "ns/a", remove)
        assert names(store) == ["ns/b"]

        etcd.release()
        etcd.put(b"/registry/pods/ns/c", data("c"))
        await reached(store, etcd)
        changes = store.collection(PODS).read(first, 10)

    assert (created.revision, deleted.revision) == (2, 4)
    assert [(change.type, change.record.key, change.revision) for change in changes] == [
        ("ADDED", "ns/a", 2),
        ("ADDED", "ns/b", 3),
        ("DELETED", "ns/a", 4),
        ("ADDED", "ns/c", 5),
    ]
    assert load(changes[2].record)["last"] is True


async def test_write_of_a_cancelled_request_does_not_delay_later_ones(tmp_path: Path) -> None:
    etcd = FakeEtcd()
    async with opened(tmp_path, etcd) as store:
        etcd.held = True
        cancelled = asyncio.create_task(store.update(PODS, "ns/a", put()))
        while "Txn" not in etcd.calls:
            await asyncio.sleep(0)
        cancelled.cancel()
        record = await store.update(PODS, "ns/b", put(data("b")))

        assert names(store) == ["ns/a", "ns/b"]
    assert record.revision == 3


async def test_compactions_do_not_delay_writes(tmp_path: Path) -> None:
    etcd = FakeEtcd()
    async with opened(tmp_path, etcd) as store:
        etcd.held = True
        await store._compaction.once()
        record = await store.update(PODS, "ns/a", put())
        assert names(store) == ["ns/a"]
    assert record.revision == 3


async def test_own_writes_follow_earlier_ones_of_other_servers(tmp_path: Path) -> None:
    etcd = FakeEtcd()
    async with opened(tmp_path, etcd) as store:
        etcd.held = True
        first = store.collection(PODS).end
        etcd.put(b"/registry/pods/ns/other", data("other"))
        writes = [asyncio.create_task(store.update(PODS, f"ns/{name}", put(data(name)))) for name in "ab"]
        while etcd.calls.count("Txn") < 2:
            await asyncio.sleep(0)
        await asyncio.sleep(0.05)
        assert names(store) == []

        etcd.release()
        records = await asyncio.gather(*writes)
        changes = store.collection(PODS).read(first, 10)

    assert [change.revision for change in changes] == [2, 3, 4]
    assert changes[0].record.key == "ns/other"
    assert sorted(record.revision for record in records) == [3, 4]


async def test_watch_that_lags_behind_is_renewed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_LAG_SECONDS", 0.01)
    monkeypatch.setattr(module, "_RENEWAL_SECONDS", 0.0)
    etcd = FakeEtcd()
    async with opened(tmp_path, etcd) as store:
        etcd.put(b"/registry/pods/ns/first", data("first"))
        await reached(store, etcd)
        etcd.held = True
        etcd.put(b"/registry/pods/ns/other", data("other"))
        record = await store.update(PODS, "ns/a", put())

        assert names(store) == ["ns/a", "ns/first", "ns/other"]
    assert record.revision == 4
    assert etcd.calls.count("Watch") == 2


async def test_write_after_an_undelivered_one_of_another_server_is_reported(tmp_path: Path) -> None:
    etcd = FakeEtcd()
    async with opened(tmp_path, etcd) as store:
        etcd.held = True
        etcd.put(b"/registry/pods/ns/other", data("other"))
        with pytest.raises(StoreUnavailable, match="the write succeeded, but has not returned through the watch yet"):
            await store.update(PODS, "ns/a", put())


async def test_start_waits_for_the_cluster(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    etcd = FakeEtcd()
    etcd.put(KEY, data())
    etcd.failures["Range"] = [UNAVAILABLE, (grpc.StatusCode.OUT_OF_RANGE, COMPACTED)]
    async with opened(tmp_path, etcd) as store:
        assert names(store) == ["ns/a"]
    assert [record.message for record in caplog.records] == ["Failed to connect to etcd, will retry"]

    monkeypatch.setattr(module, "START_SECONDS", -1.0)
    etcd.failures["Range"] = [UNAVAILABLE]
    with pytest.raises(StoreUnavailable, match=r"etcd.sock: etcdserver: no leader"):
        async with opened(tmp_path, etcd):
            pass


async def test_watch_resumes_after_an_outage(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    etcd = FakeEtcd()
    async with opened(tmp_path, etcd) as store:
        await store.update(PODS, "ns/a", put())
        ranges = etcd.calls.count("Range")
        etcd.end_watches()
        etcd.put(b"/registry/pods/ns/b", data("b"))
        await reached(store, etcd)
        assert names(store) == ["ns/a", "ns/b"]
        assert etcd.calls.count("Range") == ranges  # Nothing was loaded again.
    assert {record.message for record in caplog.records} == {"watch chan error: etcd watch closed"}


async def test_records_are_reloaded_after_a_compaction(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)
    etcd = FakeEtcd()
    async with opened(tmp_path, etcd) as store:
        await store.update(PODS, "ns/a", put())
        etcd.held = True
        etcd.end_watches()
        etcd.delete(KEY)
        etcd.put(b"/registry/pods/ns/b", data("b"))
        etcd.compacted = etcd.revision + 1
        while names(store) != ["ns/b"]:
            await asyncio.sleep(0)
    assert "Etcd history was compacted, reloading" in [record.message for record in caplog.records]


async def test_defect_while_changes_are_applied_reloads_the_records(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    etcd = FakeEtcd()
    async with opened(tmp_path, etcd) as store:

        def fail(*_: Any) -> None:
            monkeypatch.undo()
            raise RuntimeError("defect")

        with monkeypatch.context() as patched:
            patched.setattr(module, "Change", fail)
            etcd.put(KEY, data())
            while not caplog.records:
                await asyncio.sleep(0)
        await reached(store, etcd)
        assert names(store) == ["ns/a"]
    assert caplog.records[0].message == "Failed to process etcd watch, reloading"


async def test_reads_catch_up_with_writes_of_other_servers(tmp_path: Path) -> None:
    etcd = FakeEtcd()
    async with opened(tmp_path, etcd) as store:
        etcd.put(KEY, data())
        assert await store.catch_up(PODS)
        assert names(store) == ["ns/a"]
        ranges = etcd.calls.count("Range")
        await asyncio.gather(*(store.catch_up(PODS) for _ in range(10)))
        assert etcd.calls.count("Range") <= ranges + 2
        etcd.put(b"/other/key", b"")  # The watch does not receive it.
        await store.catch_up(PODS)
        assert (store.revision, etcd.calls.count("Progress")) == (3, 1)
        etcd.put(KEY, data(spec={}))
        await store.catch_up(PODS, 4)
        assert store.revision == 4


async def test_reads_do_not_wait_during_an_outage(tmp_path: Path) -> None:
    etcd = FakeEtcd()
    async with opened(tmp_path, etcd) as store:
        etcd.failures["Range"] = [UNAVAILABLE]
        assert not await store.catch_up(PODS)
        calls = len(etcd.calls)
        assert not await store.catch_up(PODS)
        assert len(etcd.calls) == calls


async def test_read_waits_for_a_watch_that_is_opened_again(tmp_path: Path) -> None:
    etcd = FakeEtcd()
    async with opened(tmp_path, etcd) as store:
        etcd.held = True
        etcd.put(KEY, data())
        etcd.end_watches()
        while store._watching is not None:
            await asyncio.sleep(0)

        assert await store.catch_up(PODS)

        assert names(store) == ["ns/a"]


async def test_revision_that_the_cluster_has_not_reached_is_not_assigned(tmp_path: Path) -> None:
    etcd = FakeEtcd()
    async with opened(tmp_path, etcd) as store:
        etcd.held = True
        etcd.put(KEY, data())

        assert [await store.is_assigned(PODS, revision) for revision in (1, 2, 3)] == [True, True, False]
        etcd.failures["Range"] = [UNAVAILABLE]
        assert await store.is_assigned(PODS, 3), "it may have been assigned"


async def test_health_is_that_of_the_cluster(tmp_path: Path) -> None:
    etcd = FakeEtcd()
    async with opened(tmp_path, etcd) as store:
        assert store.probes().keys() == {"etcd", "etcd-readiness"}
        for probe in store.probes().values():
            assert await probe(1) == ""
            etcd.failures["Range"] = [UNAVAILABLE]
            assert await probe(1) == "error getting data from etcd: etcdserver: no leader"


async def test_unreadable_values_are_reported_and_removed(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    etcd = FakeEtcd()
    etcd.put(KEY, b"not an object")
    async with opened(tmp_path, etcd) as store:
        collection = store.collection(PODS)
        assert (names(store), list(collection.unreadable)) == ([], ["ns/a"])
        with pytest.raises(StoreRejected):
            await store.update(PODS, "ns/a", put())
        etcd.put(KEY, data())
        await reached(store, etcd)
        readable = names(store), list(collection.unreadable)
        etcd.put(KEY, b"broken")
        await reached(store, etcd)
        broken = names(store), list(collection.unreadable)
        etcd.held = True
        etcd.put(KEY, b"broken again")
        removing = asyncio.ensure_future(store.remove_unreadable(PODS, "ns/a"))
        while etcd.calls[-1] != "Range":
            await asyncio.sleep(0)
        etcd.release()
        await removing
        assert (list(collection.unreadable), etcd.values) == ([], {})
    assert readable == (["ns/a"], [])
    assert broken == ([], ["ns/a"])
    assert {record.message for record in caplog.records} == {"Failed to decode stored object"}


async def test_watchers_see_an_unreadable_object_as_deleted(tmp_path: Path) -> None:
    etcd = FakeEtcd()
    etcd.put(KEY, data())
    async with opened(tmp_path, etcd) as store:
        collection = store.collection(PODS)
        position = collection.end
        for value in (b"broken", b"broken again", data()):
            etcd.put(KEY, value)
            await reached(store, etcd)
        etcd.put(KEY, b"broken")
        etcd.delete(KEY)
        await reached(store, etcd)
        assert [change.type for change in collection.read(position, 10)] == ["DELETED", "ADDED", "DELETED"]
        assert collection.unreadable == {}


async def test_history_is_compacted_by_one_server(tmp_path: Path) -> None:
    etcd, clock = FakeEtcd(), FakeClock()
    async with opened(tmp_path, etcd) as store:
        wrote: list[int] = []
        own = module.Compaction(store._client, store._compact_history, wrote.append, 300, clock)
        dropped: list[int] = []
        other = module.Compaction(store._client, dropped.append, wrote.append, 300, clock)
        await own.once()
        first = etcd.compacted
        for name in "ab":
            await store.update(PODS, f"ns/{name}", put())
        await other.once()
        await own.once()
        second = etcd.compacted
        await other.once()
        etcd.put(COMPACT_KEY, b"x")
        await other.once()
    assert (first, second) == (0, 2)
    assert dropped == [0, 2]
    assert wrote == [2, 5]


async def test_failed_compaction_is_reported_and_repeated(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    etcd, clock = FakeEtcd(), FakeClock()
    async with opened(tmp_path, etcd) as store:
        task = asyncio.ensure_future(module.Compaction(store._client, print, print, 300, clock).run())
        etcd.failures["Txn"] = [UNAVAILABLE]
        while etcd.calls.count("Txn") < 2:
            await clock.advance(300)
            await asyncio.sleep(0)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
    assert [record.message for record in caplog.records] == ["etcd: endpoint compact failed"]


async def test_values_are_encrypted_and_rewritten_with_the_first_key(tmp_path: Path) -> None:
    etcd, secret = FakeEtcd(), b"/registry/secrets/ns/s"
    etcd.put(secret, SECRET)
    etcd.put(b"/registry/pods/ns/a", data())
    async with opened(tmp_path, etcd, encryption=keys("a")) as store:
        assert load(store.collection("core/secrets").get("ns/s"))["data"] == {"a": "aHVzaA=="}
        await store.update("core/secrets", "ns/s", keep)
        await store.update(PODS, "ns/a", keep)
        first = etcd.values[secret].value
        await store.update("core/secrets", "ns/s", keep)
        assert etcd.values[secret].version == 2
    async with opened(tmp_path, etcd, encryption=keys("b", "a")) as store:
        await store.update("core/secrets", "ns/s", keep)
        second = etcd.values[secret].value
        etcd.put(secret, SECRET)
        await reached(store, etcd)
        plain = dict(store.collection("core/secrets").encrypted_by)
        etcd.put(secret, second)
        await reached(store, etcd)
        assert list(store.collection("core/secrets").encrypted_by) == ["ns/s"]
        etcd.delete(secret)
        await reached(store, etcd)
        assert store.collection("core/secrets").encrypted_by == {}
    assert first.startswith(b"k8s:enc:aesgcm:v1:a:")
    assert second.startswith(b"k8s:enc:aesgcm:v1:b:")
    assert plain == {}
    assert etcd.values[KEY].version == 1  # It is not encrypted.


async def test_value_with_an_unknown_key_is_rejected(tmp_path: Path) -> None:
    etcd, secret = FakeEtcd(), b"/registry/secrets/ns/s"
    async with opened(tmp_path, etcd, encryption=keys("a")) as store:
        await store.update("core/secrets", "ns/s", put(SECRET))
    encrypted = etcd.values[secret].value
    etcd.put(secret, SECRET)
    async with opened(tmp_path, etcd, encryption=keys("b")) as store:
        etcd.held = True
        etcd.put(secret, encrypted)
        with pytest.raises(StoreRejected):
            await store.update("core/secrets", "ns/s", put(SECRET))
        etcd.release()

"""Tests for the client of etcd: conditions of writes, errors, failover and watches."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import grpc
import pytest

from apiserver_stub.storage.base import StoreRejected, StoreUnavailable
from apiserver_stub.storage.etcd.client import EtcdClient, HistoryCompacted, LeaseExpired, TlsFiles, prefix_end

from .fake_etcd import COMPACTED, FakeEtcd, serving

pytestmark = pytest.mark.usefixtures("grpc_thread")
UNAVAILABLE = (grpc.StatusCode.UNAVAILABLE, "etcdserver: no leader")
KEY = b"/registry/pods/a"


@asynccontextmanager
async def connected(path: Path, etcd: FakeEtcd, *others: FakeEtcd, **options: Any) -> AsyncIterator[EtcdClient]:
    """Yield a client of *etcd* and *others*, in this order."""
    async with asyncio.timeout(10), serving(etcd, path / "a.sock") as url:
        if not others:
            client = EtcdClient([url], TlsFiles(), **options)
            yield client
            await client.close()
            return
        async with serving(others[0], path / "b.sock") as other:
            client = EtcdClient([url, other], TlsFiles(), **options)
            yield client
            await client.close()


async def test_write_needs_the_revision_of_the_current_value(tmp_path: Path) -> None:
    etcd = FakeEtcd()
    async with connected(tmp_path, etcd) as client:
        created = await client.put(KEY, b"1", expected=0)
        exists = await client.put(KEY, b"2", expected=0)
        updated = await client.put(KEY, b"3", expected=created[0])
        outdated = await client.delete(KEY, expected=created[0])
        removed = await client.delete(KEY, expected=updated[0])
        missing = await client.put(KEY, b"4", expected=updated[0])

    assert (created, updated, removed) == ((2, None), (3, None), (4, None))
    for revision, response in (exists, outdated):
        assert revision == 0
        assert response is not None
    assert exists[1] is not None and exists[1].kvs[0].value == b"1"
    assert missing[1] is not None and (missing[0], list(missing[1].kvs)) == (0, [])


async def test_range_selects_a_key_or_those_with_a_prefix(tmp_path: Path) -> None:
    etcd = FakeEtcd()
    for name in (b"/a/1", b"/a/2", b"/a/3", b"/b/1"):
        etcd.put(name, name)
    async with connected(tmp_path, etcd) as client:
        one = await client.range(b"/a/1")
        page = await client.range(b"/a/", prefix_end(b"/a/"), limit=2)
        count = await client.range(b"/a/", prefix_end(b"/a/"), count_only=True)
        etcd.compacted = 4
        with pytest.raises(HistoryCompacted):
            await client.range(b"/a/", prefix_end(b"/a/"), revision=3)

    assert [item.value for item in one.kvs] == [b"/a/1"]
    assert ([item.key for item in page.kvs], page.more) == ([b"/a/1", b"/a/2"], True)
    assert (list(count.kvs), count.count) == ([], 3)


async def test_calls_are_observed_with_their_operation_and_result(tmp_path: Path) -> None:
    etcd, seen = FakeEtcd(), []

    def observe(operation: str, kind: str, seconds: float, *, failed: bool) -> None:
        assert seconds >= 0
        seen.append((operation, kind, failed))

    async with connected(tmp_path, etcd, observe=observe) as client:
        revision, _ = await client.put(KEY, b"1", expected=0, kind="core/pods")
        revision, _ = await client.put(KEY, b"2", expected=revision, kind="core/pods")
        await client.delete(KEY, expected=revision, kind="core/pods")
        await client.range(KEY, kind="core/pods")
        await client.range(b"/", b"0")
        await client.range(b"/", b"0", count_only=True)
        await client.grant(60)
        etcd.failures["Range"] = [UNAVAILABLE]
        with pytest.raises(StoreUnavailable):
            await client.range(KEY)

    assert seen == [
        ("create", "core/pods", False),
        ("update", "core/pods", False),
        ("delete", "core/pods", False),
        ("get", "core/pods", False),
        ("list", "", False),
        ("listWithCount", "", False),
        ("grant", "", False),
        ("get", "", True),
    ]
    assert etcd.leases == {1: 60}


@pytest.mark.parametrize(
    ("code", "details", "kind", "text"),
    [
        (grpc.StatusCode.OUT_OF_RANGE, COMPACTED, HistoryCompacted, COMPACTED),
        (grpc.StatusCode.NOT_FOUND, "etcdserver: requested lease not found", LeaseExpired, "lease not found"),
        (grpc.StatusCode.INVALID_ARGUMENT, "etcdserver: request is too large", StoreRejected, "request is too large"),
        (grpc.StatusCode.OUT_OF_RANGE, "etcdserver: required revision is a future", StoreRejected, "future"),
        (grpc.StatusCode.PERMISSION_DENIED, "etcdserver: permission denied", StoreRejected, "permission denied"),
        (grpc.StatusCode.RESOURCE_EXHAUSTED, "etcdserver: mvcc: database space exceeded", StoreUnavailable, "space"),
        (grpc.StatusCode.UNAVAILABLE, "connection lost", StoreUnavailable, "etcd: connection lost"),
        (grpc.StatusCode.UNKNOWN, "", StoreUnavailable, "etcd: UNKNOWN"),
        (grpc.StatusCode.DEADLINE_EXCEEDED, "x", StoreUnavailable, "context deadline exceeded"),
    ],
)
async def test_errors_are_translated(tmp_path: Path, code: Any, details: str, kind: Any, text: str) -> None:
    etcd = FakeEtcd()
    etcd.failures["Range"] = [(code, details)]
    async with connected(tmp_path, etcd) as client:
        with pytest.raises(kind) as error:
            await client.range(KEY)

    assert type(error.value) is kind
    assert text in str(error.value)


async def test_next_server_is_used_after_an_outage_only(tmp_path: Path) -> None:
    first, second = FakeEtcd(), FakeEtcd()
    async with connected(tmp_path, first, second) as client:
        for details in ("etcdserver: request is too large", "etcdserver: mvcc: database space exceeded"):
            first.failures["Range"] = [(grpc.StatusCode.RESOURCE_EXHAUSTED, details)]
            with pytest.raises(StoreUnavailable):
                await client.range(KEY)
        await client.range(KEY)
        rejected = len(second.calls)
        for etcd, code in ((first, grpc.StatusCode.UNAVAILABLE), (second, grpc.StatusCode.DEADLINE_EXCEEDED)):
            etcd.failures["Txn"] = [(code, "x")]
            with pytest.raises(StoreUnavailable):
                await client.put(KEY, b"", expected=0)
        await client.range(KEY)

    assert rejected == 0
    assert (len(first.calls), len(second.calls)) == (5, 1)


async def test_read_is_repeated_once_by_each_other_server(tmp_path: Path) -> None:
    first, second = FakeEtcd(), FakeEtcd()
    async with connected(tmp_path, first, second) as client:
        first.failures["Range"] = [UNAVAILABLE]
        await client.range(KEY)
        assert (first.calls, second.calls) == (["Range"], ["Range"])

        first.failures["Range"], second.failures["Range"] = [UNAVAILABLE] * 9, [UNAVAILABLE] * 9
        with pytest.raises(StoreUnavailable):
            await client.range(KEY)
        assert (len(first.calls), len(second.calls)) == (2, 2)


async def test_read_is_not_repeated_after_its_timeout(tmp_path: Path) -> None:
    first, second = FakeEtcd(), FakeEtcd()
    async with connected(tmp_path, first, second) as client:
        first.failures["Range"] = [UNAVAILABLE]
        with pytest.raises(StoreUnavailable):
            await client.range(KEY, seconds=0.0)

    assert second.calls == []


async def test_sizes_are_those_of_the_servers_that_respond(tmp_path: Path) -> None:
    first, second = FakeEtcd(), FakeEtcd()
    async with connected(tmp_path, first, second) as client:
        assert await client.sizes() == dict.fromkeys(client.urls, 4096)
        first.failures["Status"] = [UNAVAILABLE]
        assert await client.sizes() == {client.urls[1]: 4096}
        first.garbage.add("Status")
        second.failures["Status"] = [UNAVAILABLE]
        with pytest.raises(StoreUnavailable, match="etcdserver: no leader"):
            await client.sizes()


async def test_interval_is_won_by_one_writer(tmp_path: Path) -> None:
    async with connected(tmp_path, FakeEtcd()) as client:
        won, _ = await client.bump(b"k", b"1", version=0)
        lost, response = await client.bump(b"k", b"2", version=0)

    assert (won, lost) == (True, False)
    (found,) = response.responses[0].response_range.kvs
    assert (found.value, found.version) == (b"1", 1)


async def test_repeated_compaction_is_accepted(tmp_path: Path) -> None:
    etcd = FakeEtcd()
    async with connected(tmp_path, etcd) as client:
        await client.compact(5)
        await client.compact(5)

    assert (etcd.compacted, etcd.calls) == (5, ["Compact", "Compact"])


async def test_invalid_response_makes_the_store_unavailable(tmp_path: Path) -> None:
    etcd = FakeEtcd()
    etcd.garbage.update(("Range", "Watch"))
    async with connected(tmp_path, etcd) as client:
        with pytest.raises(StoreUnavailable, match="invalid response"):
            await client.range(KEY)
        async with client.watch(b"/", b"0", 1) as watching:
            responses = watching.responses()
            assert (await anext(responses)).created
            etcd.put(KEY, b"1")
            with pytest.raises(StoreUnavailable, match="invalid response"):
                await anext(responses)


async def test_watch_yields_changes_since_its_start(tmp_path: Path) -> None:
    etcd = FakeEtcd()
    etcd.put(b"/a", b"old")
    etcd.put(b"/a", b"new")
    async with connected(tmp_path, etcd) as client, client.watch(b"/", b"0", 3) as watching:
        responses = watching.responses()
        assert (await anext(responses)).created
        first = await anext(responses)
        await watching.request_progress()
        progress = await anext(responses)
        etcd.delete(b"/a")
        last = await anext(responses)

    assert [item["hasleader"] for item in etcd.metadata] == ["true"]
    assert [event.kv.value for event in first.events] == [b"new"]
    assert (list(progress.events), progress.header.revision) == ([], 3)
    assert [event.kv.mod_revision for event in last.events] == [4]


async def test_end_of_a_watch_is_an_error_and_fails_over(tmp_path: Path) -> None:
    first, second = FakeEtcd(), FakeEtcd()
    first.compacted = 9
    async with connected(tmp_path, first, second) as client:
        async with client.watch(b"/", b"0", 8) as watching:
            with pytest.raises(HistoryCompacted):
                async for _ in watching.responses():
                    pass
        for etcd, cancel, text in ((first, "etcdserver: x", "etcdserver: x"), (first, "", "watch closed")):
            async with client.watch(b"/", b"0", 10) as watching:
                responses = watching.responses()
                assert (await anext(responses)).created
                while not etcd.watching:
                    await client.range(KEY)
                etcd.end_watches(cancel=cancel)
                with pytest.raises(StoreUnavailable, match=text):
                    await anext(responses)
        before = len(second.calls)
        await client.range(KEY)

    assert (before, second.calls) == (0, ["Range"])


async def test_server_that_cannot_be_reached_is_unavailable(tmp_path: Path) -> None:
    client = EtcdClient([f"unix://{tmp_path / 'missing.sock'}"], TlsFiles())
    with pytest.raises(StoreUnavailable):
        await client.range(KEY)
    with pytest.raises(StoreUnavailable):
        async with client.watch(b"/", b"0", 1) as watching:
            await anext(watching.responses())
    await client.close()


async def test_progress_of_a_broken_watch_is_not_requested(tmp_path: Path) -> None:
    etcd = FakeEtcd()
    async with connected(tmp_path, etcd) as client, client.watch(b"/", b"0", 1) as watching:
        responses = watching.responses()
        assert (await anext(responses)).created
        while not etcd.watching:
            await client.range(KEY)
        etcd.end_watches()
        with pytest.raises(StoreUnavailable):
            await anext(responses)
        await watching.request_progress()

    assert "Progress" not in etcd.calls


async def test_socket_replaces_the_address_of_a_server(tmp_path: Path) -> None:
    etcd, url = FakeEtcd(), "http://etcd.example:2379"
    async with serving(etcd, tmp_path / "a.sock"):
        client = EtcdClient([url], TlsFiles(), sockets={url: tmp_path / "a.sock"})
        await client.range(KEY)
        await client.close()

    assert (client.urls, etcd.calls) == ([url], ["Range"])


def test_missing_tls_file_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="No such file"):
        EtcdClient(["https://etcd.example:2379"], TlsFiles(ca=tmp_path / "missing"))


def test_end_of_a_prefix_is_the_first_key_after_it() -> None:
    assert prefix_end(b"/registry/") == b"/registry0"

"""Tests for the state of the simulated etcd cluster: transactions, history, compaction and leases."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from apiserver_stub.simulation.etcd import Etcd, EtcdError
from apiserver_stub.storage.etcd.proto import kv_pb2 as kv
from apiserver_stub.storage.etcd.proto import rpc_pb2 as rpc


class Harness:
    def __init__(self) -> None:
        self.applied: list[list[tuple[int, bytes, int]]] = []
        self.etcd = Etcd()
        self.etcd.observers.append(self._apply)

    def _apply(self, events: Sequence[kv.Event]) -> None:
        self.applied.append([(event.type, event.kv.key, event.kv.mod_revision) for event in events])

    def write(self, key: bytes, change: Any, **compared: int) -> rpc.TxnResponse:
        target = rpc.Compare.VERSION if "version" in compared else rpc.Compare.MOD
        compare = rpc.Compare(target=target, key=key, **compared)
        failure = rpc.RequestOp(request_range=rpc.RangeRequest(key=key))
        request = rpc.TxnRequest(compare=[compare], success=[change], failure=[failure])
        response: rpc.TxnResponse = self.etcd.call("Txn", request)
        return response

    def put(self, key: bytes, value: bytes, *, lease: int = 0, **compared: int) -> rpc.TxnResponse:
        put = rpc.PutRequest(key=key, value=value, lease=lease)
        return self.write(key, rpc.RequestOp(request_put=put), **(compared or {"mod_revision": self.revision_of(key)}))

    def delete(self, key: bytes, **compared: int) -> rpc.TxnResponse:
        change = rpc.RequestOp(request_delete_range=rpc.DeleteRangeRequest(key=key))
        return self.write(key, change, **compared)

    def range(self, key: bytes, end: bytes = b"", **options: Any) -> rpc.RangeResponse:
        response: rpc.RangeResponse = self.etcd.call("Range", rpc.RangeRequest(key=key, range_end=end, **options))
        return response

    def revision_of(self, key: bytes) -> int:
        found = self.range(key).kvs
        return found[0].mod_revision if found else 0

    def compact(self, revision: int) -> None:
        self.etcd.call("Compact", rpc.CompactionRequest(revision=revision))

    def grant(self, seconds: int) -> int:
        return int(self.etcd.call("LeaseGrant", rpc.LeaseGrantRequest(TTL=seconds)).ID)


@pytest.fixture
def harness() -> Harness:
    return Harness()


def test_writes_have_increasing_revisions_and_are_applied_in_order(harness: Harness) -> None:
    assert harness.put(b"a", b"1", mod_revision=0).header.revision == 2
    assert harness.put(b"a", b"2", mod_revision=2).header.revision == 3
    assert harness.delete(b"a", mod_revision=3).succeeded

    assert harness.applied == [[(0, b"a", 2)], [(0, b"a", 3)], [(1, b"a", 4)]]
    assert not harness.range(b"a").kvs


def test_write_with_another_revision_returns_the_value(harness: Harness) -> None:
    harness.put(b"a", b"1")

    for revision in (0, 1, 3):
        response = harness.put(b"a", b"2", mod_revision=revision)
        assert (response.succeeded, response.responses[0].response_range.kvs[0].value) == (False, b"1")
    assert not harness.put(b"a", b"2", version=0).succeeded
    assert harness.put(b"a", b"2", version=1).succeeded


def test_deletion_of_a_missing_key_changes_nothing(harness: Harness) -> None:
    assert harness.delete(b"a", mod_revision=0).succeeded

    assert (harness.applied, harness.etcd.revision) == ([], 1)


def test_version_and_creation_of_a_key_begin_again_after_its_deletion(harness: Harness) -> None:
    harness.put(b"a", b"1")
    harness.put(b"a", b"2")
    (item,) = harness.range(b"a").kvs
    assert (item.version, item.create_revision, item.mod_revision) == (2, 2, 3)

    harness.delete(b"a", mod_revision=3)
    harness.put(b"a", b"3")

    (item,) = harness.range(b"a").kvs
    assert (item.version, item.create_revision) == (1, 5)


def test_ranges_are_sorted_limited_and_counted(harness: Harness) -> None:
    for key in (b"b", b"a", b"d", b"c"):
        harness.put(key, key)

    found = harness.range(b"a", b"d", limit=2)
    assert ([item.key for item in found.kvs], found.more, found.count) == ([b"a", b"b"], True, 3)
    found = harness.range(b"c", b"z", limit=2)
    assert ([item.key for item in found.kvs], found.more) == ([b"c", b"d"], False)
    found = harness.range(b"a", b"z", count_only=True)
    assert (list(found.kvs), found.count) == ([], 4)


def test_states_in_the_past_are_read_until_they_are_compacted(harness: Harness) -> None:
    harness.put(b"a", b"1")
    harness.put(b"a", b"2")
    harness.delete(b"a", mod_revision=3)
    harness.put(b"b", b"3")

    def values(revision: int) -> list[bytes]:
        return [item.value for item in harness.range(b"a", b"z", revision=revision).kvs]

    assert [values(revision) for revision in (1, 2, 3, 4, 5, 0)] == [[], [b"1"], [b"2"], [], [b"3"], [b"3"]]
    harness.compact(3)
    assert [values(revision) for revision in (3, 4, 5, 0)] == [[b"2"], [], [b"3"], [b"3"]]
    for revision, text in ((2, "compacted"), (6, "future revision")):
        with pytest.raises(EtcdError, match=text):
            values(revision)
    harness.compact(5)
    assert values(5) == [b"3"]


@pytest.mark.parametrize("revision", [2, 1])
def test_history_is_not_compacted_twice(harness: Harness, revision: int) -> None:
    harness.put(b"a", b"1")
    harness.compact(2)

    with pytest.raises(EtcdError, match="compacted"):
        harness.compact(revision)


def test_events_are_those_of_the_keys_since_a_revision(harness: Harness) -> None:
    for key in (b"a", b"b", b"c", b"b"):
        harness.put(key, b"1")

    def events(start: int) -> list[int]:
        return [event.kv.mod_revision for event in harness.etcd.events(b"b", b"c", start)]

    assert [events(start) for start in (1, 3, 4, 5, 6)] == [[3, 5], [3, 5], [5], [5], []]
    harness.compact(4)
    assert events(1) == [5]


def test_expired_lease_deletes_its_present_keys_at_one_revision(harness: Harness) -> None:
    lease, other = harness.grant(60), harness.grant(60)
    assert (harness.etcd.lease_seconds(lease), harness.etcd.lease_seconds(9)) == (60, 0)
    for key in (b"a", b"b", b"c", b"d"):
        harness.put(key, b"1", lease=lease)
    harness.put(b"c", b"2", lease=other)
    harness.delete(b"d", mod_revision=harness.revision_of(b"d"))
    harness.applied.clear()

    harness.etcd.expire(lease)

    assert harness.applied == [[(1, b"a", 8), (1, b"b", 8)]]
    assert [item.key for item in harness.range(b"a", b"z").kvs] == [b"c"]
    harness.applied.clear()
    harness.etcd.expire(harness.grant(1))
    assert harness.applied == []


def test_writes_that_etcd_rejects_change_nothing(harness: Harness) -> None:
    with pytest.raises(EtcdError, match="lease not found"):
        harness.put(b"a", b"1", lease=7)
    with pytest.raises(EtcdError, match="too large"):
        harness.put(b"a", bytes(1_500_000))
    harness.put(b"a", b"1")
    harness.etcd.full = True
    with pytest.raises(EtcdError, match="space exceeded"):
        harness.put(b"a", b"2")

    assert harness.delete(b"a", mod_revision=2).succeeded
    assert len(harness.applied) == 2

"""Tests for collections: current records, history and changes."""

from __future__ import annotations

import asyncio

import pytest

from apiserver_stub.storage import Change, Collection, Compacted, Record
from apiserver_stub.storage import collection as module
from apiserver_stub.storage.collection import UnreadableValue


@pytest.fixture
def pods() -> Collection:
    return Collection("core/pods", floor=10)


def put(collection: Collection, key: str, revision: int, data: bytes = b"x") -> None:
    previous = collection.get(key)
    type_ = "ADDED" if previous is None else "MODIFIED"
    collection.publish([Change(type_, Record(key, revision, data), previous)])


def remove(collection: Collection, key: str, revision: int) -> None:
    collection.publish([Change("DELETED", Record(key, revision, b"x"), collection.get(key))])


def keys(records: list[Record]) -> list[str]:
    return [record.key for record in records]


def test_records_are_listed_by_namespace_in_key_order(pods: Collection) -> None:
    for revision, key in enumerate(["b/2", "a/9", "a/1", "ab/1", "b/1"], 11):
        put(pods, key, revision)

    assert keys(pods.select()) == ["a/1", "a/9", "ab/1", "b/1", "b/2"]
    assert keys(pods.select("a/")) == ["a/1", "a/9"]
    assert keys(pods.select("b/", "b/1\0")) == ["b/2"]
    assert keys(pods.select("", "ab/")) == ["ab/1", "b/1", "b/2"]


def test_unreadable_value_exists_but_is_not_a_record(pods: Collection) -> None:
    put(pods, "a", 11)
    pods.unreadable["b"] = UnreadableValue(12, b"", "encrypted", False)

    assert [pods.exists(key) for key in ("a", "b", "c")] == [True, True, False]
    assert pods.get("b") is None


def test_keys_of_deleted_records_are_dropped_though_no_client_lists_them(pods: Collection) -> None:
    for revision in range(11, 10_011, 2):
        put(pods, f"pod-{revision}", revision)
        remove(pods, f"pod-{revision}", revision + 1)
    pods.compact(10_011)

    texts = {text for found in vars(pods).values() if isinstance(found, list | dict) for text in found}
    assert len(texts) < 300


def test_removed_and_recreated_records_keep_the_key_order(pods: Collection) -> None:
    put(pods, "a", 11)
    put(pods, "b", 12)
    assert keys(pods.select()) == ["a", "b"]

    remove(pods, "a", 13)
    put(pods, "a", 14)
    put(pods, "0", 15)

    assert keys(pods.select()) == ["0", "a", "b"]


def test_past_revision_can_be_listed(pods: Collection) -> None:
    put(pods, "a", 11, b"one")
    put(pods, "b", 12)
    put(pods, "a", 13, b"two")
    remove(pods, "b", 14)
    put(pods, "c", 15)

    at_12 = pods.select_at(12)

    assert [(record.key, record.data) for record in at_12] == [("a", b"one"), ("b", b"x")]
    assert keys(pods.select_at(10)) == []
    assert keys(pods.select_at(15)) == ["a", "c"]
    with pytest.raises(Compacted):
        pods.select_at(9)


def test_changes_are_read_after_a_revision(pods: Collection) -> None:
    for revision, key in enumerate("abc", 11):
        put(pods, key, revision)

    position = pods.position_after(11)

    assert [change.record.key for change in pods.read(position, 10)] == ["b", "c"]
    assert [change.record.key for change in pods.read(position, 1)] == ["b"]
    assert pods.position_after(99) == pods.end
    with pytest.raises(Compacted):
        pods.position_after(9)


def test_reader_behind_the_history_gets_an_error(pods: Collection, small_history: None) -> None:
    start = pods.position_after(10)
    for revision in range(11, 20):
        put(pods, f"k{revision}", revision)

    with pytest.raises(Compacted) as error:
        pods.read(start, 10)
    assert error.value.oldest == 16
    with pytest.raises(Compacted):
        pods.select_at(15)
    assert len(pods.select_at(16)) == 6


def test_replaced_records_count_toward_the_history_limit(pods: Collection, small_history: None) -> None:
    put(pods, "a", 11, b"." * 60)
    put(pods, "a", 12, b"." * 60)
    put(pods, "a", 13, b"." * 60)

    with pytest.raises(Compacted):
        pods.position_after(11)
    assert pods.read(pods.position_after(12), 10)


async def test_wait_returns_at_the_next_change(pods: Collection) -> None:
    waiting = asyncio.ensure_future(pods.wait(pods.end))
    await asyncio.sleep(0)
    assert not waiting.done()

    put(pods, "a", 11)

    await asyncio.wait_for(waiting, 1)


@pytest.fixture
def small_history(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "HISTORY_CHANGES", 3)
    monkeypatch.setattr(module, "HISTORY_BYTES", 100)


def test_view_is_a_range_of_the_records() -> None:
    collection = Collection("core/pods", 0)
    for number, key in enumerate(("a/1", "a/2", "b/1", "b/2", "b/3", "c/1")):
        collection.load(Record(key, number + 1, b""))

    view = collection.view("b/", "b/2")

    assert [record.key for record in view] == ["b/2", "b/3"]
    assert (len(view), view[0].key, view[-1].key) == (2, "b/2", "b/3")
    assert [record.key for record in view[1:5]] == ["b/3"]
    assert list(collection.view("d/")) == []


async def test_reset_replaces_all_records_and_notifies_readers(pods: Collection) -> None:
    put(pods, "a", 11)
    put(pods, "b", 12)
    position = pods.end
    waiting = asyncio.ensure_future(pods.wait(position))
    await asyncio.sleep(0)

    pods.reset([Record("c", 20, b"x"), Record("b", 12, b"x")], 30)

    await asyncio.wait_for(waiting, 1)
    assert keys(pods.select()) == ["b", "c"]
    for late in (lambda: pods.read(position, 1), lambda: pods.position_after(29), lambda: pods.select_at(29)):
        with pytest.raises(Compacted):
            late()
    assert pods.position_after(30) == pods.end
    put(pods, "d", 31)
    assert [change.record.key for change in pods.read(pods.position_after(30), 9)] == ["d"]


def test_history_can_be_compacted(pods: Collection) -> None:
    for revision, key in enumerate("abc", 11):
        put(pods, key, revision)

    pods.compact(12)

    with pytest.raises(Compacted):
        pods.position_after(11)
    assert [change.record.key for change in pods.read(pods.position_after(12), 9)] == ["c"]
    pods.compact(20)
    with pytest.raises(Compacted):
        pods.select_at(19)
    assert keys(pods.select_at(20)) == ["a", "b", "c"]


@pytest.mark.parametrize(("limit", "kept"), [(2, True), (1, False)])
def test_history_has_at_most_its_limit_of_bytes(
    pods: Collection, monkeypatch: pytest.MonkeyPatch, limit: int, *, kept: bool
) -> None:
    monkeypatch.setattr(module, "HISTORY_BYTES", limit)
    put(pods, "a", 11, b"x")
    start = pods.end
    put(pods, "a", 12, b"x")
    put(pods, "a", 13, b"x")

    if kept:
        assert [change.revision for change in pods.read(start, 10)] == [12, 13]
    else:
        with pytest.raises(Compacted):
            pods.read(start, 10)


@pytest.mark.parametrize(("revision", "left"), [(10, [11, 12]), (11, [12]), (12, [])])
def test_compaction_drops_changes_up_to_a_revision(pods: Collection, revision: int, left: list[int]) -> None:
    start = pods.end
    put(pods, "a", 11)
    put(pods, "b", 12)
    pods.compact(revision)

    assert [change.revision for change in pods.read(pods.end - len(left), 10)] == left
    if len(left) < 2:
        with pytest.raises(Compacted):
            pods.read(start, 10)

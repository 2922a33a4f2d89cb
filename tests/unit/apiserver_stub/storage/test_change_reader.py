"""Tests for readers of changes: those of all changes, and those of one topic."""

from __future__ import annotations

import asyncio
import gc
import weakref

import pytest

from apiserver_stub.storage import Change, Collection, Compacted, Record
from apiserver_stub.storage import collection as module
from apiserver_stub.storage.change_reader import ChangeReader


@pytest.fixture
def pods() -> Collection:
    return Collection("core/pods", floor=10)


def put(collection: Collection, key: str, revision: int) -> None:
    previous = collection.get(key)
    change = Change("ADDED" if previous is None else "MODIFIED", Record(key, revision, b"x"), previous)
    collection.publish([change])


def reader_of(collection: Collection, key: str, position: int | None = None) -> ChangeReader:
    topics = collection.topics("key", lambda change: [change.record.key])
    return ChangeReader(collection, collection.end if position is None else position, topics, key)


def revisions(reader: ChangeReader) -> list[int]:
    return [change.revision for change in reader.read(100)]


def test_reader_of_a_topic_reads_the_history_and_then_only_its_topic(pods: Collection) -> None:
    start = pods.end
    put(pods, "a", 11)
    put(pods, "b", 12)
    reader = reader_of(pods, "a", start)

    assert revisions(reader) == [11, 12]
    assert revisions(reader) == []
    for revision, key in enumerate(["b", "a", "b", "a"], 13):
        put(pods, key, revision)

    assert reader.has_changes
    assert revisions(reader) == [14, 16]
    assert not reader.has_changes


async def test_only_changes_of_the_topic_wake_its_reader(pods: Collection) -> None:
    one, everything = reader_of(pods, "a"), ChangeReader(pods, pods.end)
    assert revisions(one) == revisions(everything) == []
    waiting, waiting_for_all = one.next_change(), everything.next_change()

    put(pods, "b", 11)
    assert (waiting.done(), waiting_for_all.done()) == (False, True)
    put(pods, "a", 12)
    assert waiting.done()


def test_limit_of_a_read_leaves_the_other_changes(pods: Collection) -> None:
    reader = reader_of(pods, "a")
    reader.read(100)
    for revision in (11, 12, 13):
        put(pods, "a", revision)

    assert [change.revision for change in reader.read(2)] == [11, 12]
    assert revisions(reader) == [13]


def test_reader_of_a_quiet_topic_survives_many_other_changes(pods: Collection, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "HISTORY_CHANGES", 3)
    reader = reader_of(pods, "a")
    reader.read(100)
    for revision in range(11, 31):
        put(pods, "b", revision)
    put(pods, "a", 31)

    assert revisions(reader) == [31]


def test_reader_that_is_too_slow_learns_of_its_loss(pods: Collection, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "HISTORY_CHANGES", 3)
    reader = reader_of(pods, "a")
    reader.read(100)
    for revision in range(11, 31):
        put(pods, "a", revision)

    with pytest.raises(Compacted):
        reader.read(100)


async def test_reset_wakes_readers_of_topics_and_ends_them(pods: Collection) -> None:
    reader = reader_of(pods, "a")
    reader.read(100)
    waiting = reader.next_change()

    pods.reset([Record("b", 11, b"x")], 11)

    assert waiting.done()
    with pytest.raises(Compacted):
        reader.read(100)


async def test_closed_reader_is_dropped(pods: Collection) -> None:
    reader = reader_of(pods, "a")
    reader.read(100)
    reader.abandon(reader.next_change())
    reader.close()
    dropped = weakref.ref(reader)

    del reader
    await asyncio.sleep(0)
    gc.collect()

    assert dropped() is None


def test_reader_that_has_not_reached_its_topic_can_be_closed(pods: Collection) -> None:
    start = pods.end
    put(pods, "a", 11)
    reader = reader_of(pods, "a", start)

    reader.close()

    assert revisions(reader) == [11]


def test_reader_that_is_just_fast_enough_loses_nothing(pods: Collection, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "HISTORY_CHANGES", 3)
    reader = reader_of(pods, "a")
    reader.read(100)
    for revision in (11, 12, 13):
        put(pods, "a", revision)

    assert revisions(reader) == [11, 12, 13]

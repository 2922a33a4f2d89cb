"""Tests for the history of the simulated store: lost, partial and repeated writes are violations."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from apiserver_stub.simulation.history import StoreHistory
from apiserver_stub.storage.collection import Collection
from apiserver_stub.storage.record import Change, Record
from tests.unit.apiserver_stub.simulation.stored import Stored


class Harness:
    def __init__(self) -> None:
        self.violations: list[str] = []
        self.history = StoreHistory(self.violations.append, lambda *_: None)

    def batch(self, *revisions: int) -> list[Any]:
        return [SimpleNamespace(collection="c", change=Change("ADDED", record(each), None)) for each in revisions]

    def restart(self, *revisions: int, revision: int = 0) -> None:
        collection = Collection("c", 0)
        for each in revisions:
            collection.load(record(each))
        store: Any = SimpleNamespace(
            _collections={"c": collection}, collection=lambda _: collection, revision=revision or max(revisions)
        )
        self.history.loaded(store)


def record(revision: int) -> Record:
    data = b'{"kind":"X","apiVersion":"v1","metadata":{"resourceVersion":"%d"}}' % revision
    return Record(f"ns/k{revision}", revision, data)


@pytest.fixture
def harness() -> Harness:
    return Harness()


def test_published_writes_that_are_loaded_again_are_no_violation(harness: Harness) -> None:
    harness.history.published(harness.batch(2, 3))
    harness.restart(2, 3)

    assert not harness.violations
    assert set(harness.history.state_at("c", 2)) == {"ns/k2"}


def test_lost_write_is_a_violation(harness: Harness) -> None:
    harness.history.published(harness.batch(2, 3))
    harness.restart(2, revision=3)

    assert "ns/k3: is lost" in harness.violations[0]


def test_revision_that_decreases_is_a_violation(harness: Harness) -> None:
    harness.history.published(harness.batch(2, 3))
    harness.restart(2, 3, revision=2)

    assert "revision 2 after a restart" in harness.violations[0]


@pytest.mark.parametrize(("loaded", "violations"), [((2,), 0), ((2, 3, 4), 0), ((2, 3), 1), ((2, 4), 1)])
def test_interrupted_batch_is_applied_completely_or_not_at_all(
    harness: Harness, loaded: tuple[int, ...], violations: int
) -> None:
    harness.history.published(harness.batch(2))
    harness.history.committing(harness.batch(3, 4))
    harness.restart(*loaded)

    assert len(harness.violations) == violations


def test_repeated_revision_is_a_violation(harness: Harness) -> None:
    harness.history.published(harness.batch(2))
    harness.history.published(harness.batch(2))

    assert harness.violations


@pytest.mark.parametrize(("later", "violations"), [((), 0), ((5,), 1)])
def test_failed_batch_may_appear_unless_a_later_one_was_written(
    harness: Harness, later: tuple[int, ...], violations: int
) -> None:
    harness.history.published(harness.batch(2))
    harness.history.committing(harness.batch(3, 4))
    harness.history.failed()
    if later:
        harness.history.published(harness.batch(*later))
    harness.restart(2, 3, 4, *later)

    assert len(harness.violations) == violations


@pytest.mark.parametrize(("content", "violations"), [(b'{"metadata": {}, "x": 1}', 0), (b'{"metadata":{},"x":2}', 1)])
def test_other_content_after_a_restart_is_a_violation(harness: Harness, content: bytes, violations: int) -> None:
    write = Change("ADDED", Record("ns/a", 2, b'{"metadata":{},"x":1}'), None)
    harness.history.published([SimpleNamespace(collection="c", change=write)])
    collection = Collection("c", 0)
    collection.load(Record("ns/a", 2, content))
    store: Any = SimpleNamespace(_collections={"c": collection}, collection=lambda _: collection, revision=2)
    harness.history.loaded(store)

    assert len(harness.violations) == violations


def test_versions_are_the_states_between_two_revisions() -> None:
    stored = Stored()
    for number in range(4):
        stored.put("c", "ns/a", number=number)
    stored.put("c", "ns/b", number=9)
    stored.delete("c", "ns/a")

    def numbers(first: int, last: int) -> list[int | None]:
        versions = stored.invariants.history.versions("c", "ns/a", first, last)
        return [None if entry is None else entry.object()["number"] for entry in versions]

    assert numbers(0, 1) == [None, 0]
    assert numbers(1, 3) == [0, 1, 2]
    assert numbers(4, 5) == [3]
    assert numbers(5, 6) == [3, None]

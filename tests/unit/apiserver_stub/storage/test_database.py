"""Tests for the database file of the default store."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from apiserver_stub.storage import database as module
from apiserver_stub.storage.database import Database, Row, checkpoint


def row(revision: int) -> Row:
    return Row(revision, "core/pods", f"ns/{revision}", None, b"x")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "store.db"


@pytest.fixture
def database(path: Path) -> Iterator[Database]:
    with closing(Database(path)) as found:
        yield found


@pytest.mark.parametrize(
    ("removes", "puts", "revision", "left"),
    [
        ([], [3], 3, [2, 3]),
        ([], [3, 4], 5, [2, 3, 4]),
        ([], [], 3, [2]),
        ([2], [3], 3, [3]),
        ([2], [], 3, []),
        ([], range(3, 36), 35, [2, *range(3, 36)]),
        ([], range(3, 35), 34, [2, *range(3, 35)]),
    ],
)
def test_revision_of_a_batch_survives_a_restart(
    database: Database, path: Path, removes: list[int], puts: list[int], revision: int, left: list[int]
) -> None:
    database.commit([], [row(2)], 2)

    database.commit(removes, [row(number) for number in puts], revision)
    database.close()

    with closing(Database(path)) as again:
        assert [found.revision for found in again.rows()] == left
        assert again.revision() == revision


@pytest.mark.parametrize(("excess", "truncated"), [(0, False), (-1, True)])
def test_wal_is_truncated_above_its_limit(
    database: Database, path: Path, monkeypatch: pytest.MonkeyPatch, excess: int, *, truncated: bool
) -> None:
    database.commit([], [row(2)], 2)
    log = path.with_name("store.db-wal")
    size = log.stat().st_size
    monkeypatch.setattr(module, "WAL_LIMIT_BYTES", size + excess)

    checkpoint(path, size)

    assert log.stat().st_size == (0 if truncated else size)


def test_wal_is_moved_into_the_database_from_a_size_on(database: Database, path: Path) -> None:
    database.commit([], [row(2)], 2)
    size, before = path.with_name("store.db-wal").stat().st_size, path.stat().st_size

    checkpoint(path, size + 1)
    unchanged = path.stat().st_size
    checkpoint(path, size)

    assert (unchanged, path.stat().st_size > before) == (before, True)


def test_checkpoint_of_a_file_without_a_wal_does_nothing(path: Path) -> None:
    checkpoint(path, 1)

    assert not path.exists()

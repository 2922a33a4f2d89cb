"""Tests for the simulated disk of the database."""

from __future__ import annotations

import sqlite3
from contextvars import Context
from pathlib import Path

import pytest

from apiserver_stub.simulation.disk import DatabaseDisk
from apiserver_stub.storage.database import Database, Row, checkpoint
from nodeagent.base.simulation.loop import PROCESS, ProcessCrashed


@pytest.fixture
def process() -> Context:
    context = Context()
    context.run(PROCESS.set, 1)
    return context


def write(database: Database, revision: int) -> None:
    database.commit([], [Row(revision, "c", f"k{revision}", None, b"x" * 3000)], revision)


@pytest.mark.parametrize("tears", [False, True])
def test_crash_in_a_commit_keeps_it_completely_or_not_at_all(tmp_path: Path, process: Context, *, tears: bool) -> None:
    kept = set()
    for seed in range(40):
        path = tmp_path / f"{seed}-{tears}.db"
        disk, database = DatabaseDisk(seed, path), Database(path)
        write(database, 2)
        disk.crash_in, disk.tears = 1, tears

        with pytest.raises(ProcessCrashed):
            process.run(disk.call, write, database, 3)
        files = disk.files()
        database.close()
        disk.restore(files)

        reopened = Database(path)
        revisions = [row.revision for row in reopened.rows()]
        reopened.close()
        assert revisions in ([2], [2, 3])
        kept.add(len(revisions))
    assert kept == {1, 2}


@pytest.mark.parametrize("tears", [False, True])
def test_crash_in_a_checkpoint_or_after_it_loses_nothing(tmp_path: Path, process: Context, *, tears: bool) -> None:
    for seed in range(40):
        path = tmp_path / f"{seed}-{tears}.db"
        disk, database = DatabaseDisk(seed, path), Database(path)
        for revision in (2, 3, 4):
            write(database, revision)
        if seed % 2:
            checkpoint(path, 0)
        disk.crash_in, disk.tears = 1, tears

        with pytest.raises(ProcessCrashed):
            process.run(disk.call, *((write, database, 5) if seed % 2 else (checkpoint, path, 0)))
        files = disk.files()
        database.close()
        disk.restore(files)

        reopened = Database(path)
        assert [row.revision for row in reopened.rows()][:3] == [2, 3, 4]
        reopened.close()


def test_full_disk_fails_commits_which_succeed_again_later(tmp_path: Path, process: Context) -> None:
    disk, database = DatabaseDisk(1, tmp_path / "store.db"), Database(tmp_path / "store.db")
    disk.full = True
    failures = 0
    for revision in range(2, 30):
        try:
            process.run(disk.call, write, database, revision)
        except sqlite3.Error:
            failures += 1

    disk.full = False
    process.run(disk.call, write, database, 30)
    assert failures == disk.failures > 0
    assert [row.revision for row in database.rows()][-1] == 30
    database.close()

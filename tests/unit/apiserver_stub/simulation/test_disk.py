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


HEADER, OTHER_HEADER = b"h" * 32, b"o" * 32


def remains(
    directory: Path,
    process: Context,
    seed: int,
    before: tuple[bytes, bytes],
    after: tuple[bytes, bytes],
    *,
    tears: bool,
) -> tuple[bytes, bytes]:
    """Return database and log after a crash in a function that replaced *before* by *after*."""
    path = directory / "store.db"
    disk = DatabaseDisk(seed, path)
    disk.restore(before)
    disk.crash_in, disk.tears = 1, tears
    with pytest.raises(ProcessCrashed):
        process.run(disk.call, lambda: _replace(path, after))
    assert (disk.crashes, disk.crash_in) == (1, None)
    return disk.files()


def _replace(path: Path, files: tuple[bytes, bytes]) -> None:
    for each, content in zip((path, path.with_name("store.db-wal")), files, strict=True):
        if content:
            each.write_bytes(content)
        else:
            each.unlink(missing_ok=True)


@pytest.mark.parametrize("tears", [False, True])
def test_crash_in_a_checkpoint_changes_a_part_of_the_database(tmp_path: Path, process: Context, tears: bool) -> None:
    before, after = (b"a" * 2048, HEADER), (b"b" * 3000, b"")
    found = {remains(tmp_path, process, seed, before, after, tears=tears) for seed in range(40)}

    assert {log for _, log in found} == {HEADER}, "the log is retained"
    parts = {database for database, _ in found}
    assert b"b" * 3000 in parts and len(parts) > 10
    for database in parts:
        sectors = [set(database[start : start + 512]) for start in range(0, len(database), 512)]
        if tears:
            assert 2048 <= len(database) <= 3000
            assert all(sector in ({97}, {98}, {0}) for sector in sectors)
        else:
            assert database.rstrip(b"a").strip(b"b") == b""
    mixed = [database for database in parts if b"ba" in database and b"ab" in database]
    assert bool(mixed) is tears


def test_log_that_is_removed_is_either_complete_or_missing(tmp_path: Path, process: Context) -> None:
    before, after = (b"a", HEADER), (b"a", b"")

    assert {remains(tmp_path, process, seed, before, after, tears=False) for seed in range(20)} == {before, after}


def test_frames_of_the_log_follow_its_header(tmp_path: Path, process: Context) -> None:
    before = (b"a", HEADER + b"x" * 100)
    for header in (HEADER, OTHER_HEADER):
        found = {
            remains(tmp_path, process, seed, before, (b"a", header + b"y" * 100), tears=False) for seed in range(40)
        }
        logs = {log for _, log in found}
        assert {database for database, _ in found} == {b"a"}
        assert header + b"y" * 100 in logs and len(logs) > 5
        assert {log[:32] for log in logs - {before[1]}} == {header}
        assert before[1] in logs, "nothing was written"
        assert all(log[32:].lstrip(b"y").strip(b"x") == b"" for log in logs)


def test_crash_occurs_in_the_chosen_write_of_a_process(tmp_path: Path, process: Context) -> None:
    path, calls = tmp_path / "store.db", list[int]()
    disk = DatabaseDisk(1, path)
    disk.crash_in = 2
    disk.call(calls.append, 0)
    process.run(disk.call, calls.append, 1)
    assert (calls, disk.crash_in, disk.log_bytes()) == ([0, 1], 1, 0)

    with pytest.raises(ProcessCrashed):
        process.run(disk.call, calls.append, 2)
    process.run(disk.call, calls.append, 3)

    assert (calls, disk.crash_in, disk.crashes) == ([0, 1, 2, 3], None, 1)
    assert disk.files() == (b"", b"")


def test_restored_files_replace_all_others(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    for name in ("store.db", "store.db-wal", "store.db-shm"):
        (tmp_path / name).write_bytes(b"old")
    disk = DatabaseDisk(1, path)
    disk.crash_in = 3

    disk.restore((b"new", b""))

    assert ({each.name: each.read_bytes() for each in tmp_path.iterdir()}, disk.crash_in) == (
        {"store.db": b"new"},
        None,
    )

"""SQLite database of the default store; each batch is durable. Used only by the store's thread."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from functools import cache
from itertools import chain
from pathlib import Path
from typing import NamedTuple

_SCHEMA = """
CREATE TABLE IF NOT EXISTS records (
    revision INTEGER PRIMARY KEY, collection TEXT NOT NULL, key TEXT NOT NULL, expires_at REAL, data BLOB NOT NULL
);
CREATE TABLE IF NOT EXISTS counters (name TEXT PRIMARY KEY, value INTEGER NOT NULL);
INSERT OR IGNORE INTO counters (name, value) VALUES ('revision', 1);
"""
"""The revision is the only index: new rows are adjacent at the end of the file, and a commit modifies few pages."""
_FROM_OLDER = """
BEGIN IMMEDIATE;
INSERT INTO records SELECT revision, collection, key, expires_at, data FROM objects;
DROP TABLE objects;
COMMIT;
"""
_SELECT = "SELECT revision, collection, key, expires_at, data FROM records"
_PUT, _ROW = "INSERT INTO records (revision, collection, key, expires_at, data) VALUES ", "(?, ?, ?, ?, ?)"
_PUTS_AT_ONCE = 32
"""Rows per statement: between two statements the thread competes with the event loop for the interpreter lock."""
_REMOVE = "DELETE FROM records WHERE revision = ?"
_COUNT = "UPDATE counters SET value = ? WHERE name = 'revision'"
_TOUCH = "UPDATE counters SET value = value WHERE name = 'revision'"

VERSION = 1
"""Version of the format, increased by a change that earlier versions of the server cannot read; 0 is that of 0.1.0."""
WAL_LIMIT_BYTES = 256 << 20


class Row(NamedTuple):
    """Stored record; *expires_at* is in seconds since the epoch."""

    revision: int
    collection: str
    key: str
    expires_at: float | None
    data: bytes


class Database:
    """Open database file. Every method raises :class:`sqlite3.Error` on file and disk errors."""

    def __init__(self, path: Path) -> None:
        """Open the file at *path*, created with mode 0600 if it is missing.

        :raises OSError: it cannot be created.
        :raises sqlite3.DatabaseError: it has the format of a later version; the file is unchanged.
        """
        db = self._db = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
        path.chmod(0o600)
        if (version := db.execute("PRAGMA user_version").fetchone()[0]) > VERSION:
            db.close()
            raise sqlite3.DatabaseError(
                f"written by a later version of the API server: format {version}, supported is {VERSION}; "
                "install that version again, or restore a backup"
            )
        db.execute("PRAGMA journal_mode = WAL")
        db.execute("PRAGMA synchronous = FULL")
        db.execute("PRAGMA wal_autocheckpoint = 0")  # Done by checkpoint(), concurrently with writes.
        db.executescript(_SCHEMA)
        if db.execute("SELECT 1 FROM sqlite_master WHERE name = 'objects'").fetchone():
            db.executescript(_FROM_OLDER)
        if version < VERSION:
            db.execute(f"PRAGMA user_version = {VERSION}")

    def revision(self) -> int:
        """Return the latest revision ever written."""
        counted: int = self._db.execute("SELECT value FROM counters WHERE name = 'revision'").fetchone()[0]
        newest: int | None = self._db.execute("SELECT max(revision) FROM records").fetchone()[0]
        return max(counted, newest or 1)

    def rows(self) -> Iterator[Row]:
        return map(Row._make, self._db.execute(_SELECT))

    def commit(self, removes: Sequence[int], puts: Sequence[Row], revision: int) -> None:
        """Delete and insert rows in one transaction; *revision* is the latest one of the batch."""
        db = self._db
        if not removes and 0 < len(puts) <= _PUTS_AT_ONCE and puts[-1].revision == revision:
            db.execute(_put(len(puts)), list(chain.from_iterable(puts)))  # A single statement is a transaction.
            return
        db.execute("BEGIN IMMEDIATE")
        try:
            if removes:
                db.executemany(_REMOVE, [(removed,) for removed in removes])
            if puts:
                db.executemany(_put(1), puts)
            db.execute(_COUNT, (revision,))
            db.execute("COMMIT")
        except BaseException:
            if db.in_transaction:
                db.execute("ROLLBACK")
            raise

    def touch(self) -> None:
        """Write without a change, to test whether writes succeed."""
        self._db.execute(_TOUCH)

    def close(self) -> None:
        self._db.close()


@cache
def _put(rows: int) -> str:
    return _PUT + ", ".join([_ROW] * rows)


def checkpoint(path: Path, worth: int) -> None:
    """Move a WAL of at least *worth* bytes into the database, through a separate connection.

    :raises OSError, sqlite3.Error: the checkpoint failed.
    """
    log = path.with_name(path.name + "-wal")
    size = log.stat().st_size if log.exists() else 0
    if size < worth:
        return
    db = sqlite3.connect(path, isolation_level=None, timeout=1)
    try:
        db.execute("PRAGMA synchronous = FULL")
        db.execute(f"PRAGMA wal_checkpoint({'TRUNCATE' if size > WAL_LIMIT_BYTES else 'PASSIVE'})")
    finally:
        db.close()

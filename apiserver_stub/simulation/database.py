"""The SQLite database of the only simulated server, with observed functions and a disk that outlive its process."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import apiserver_stub.storage.database as database_module
import apiserver_stub.storage.sqlite as sqlite_module
from apiserver_stub.simulation.disk import DatabaseDisk
from apiserver_stub.simulation.history import StoreHistory
from apiserver_stub.storage.database import checkpoint
from apiserver_stub.storage.sqlite import SqliteStore
from nodeagent.base.simulation.trace import Trace

NAME = "store.db"


class Database:
    """The database in a directory.

    :param history: observes the store.
    """

    arguments: Sequence[str] = ()

    def __init__(self, seed: object, directory: Path, history: StoreHistory, trace: Trace) -> None:
        self.disk = DatabaseDisk(seed, directory / NAME)
        self._history, self._trace = history, trace
        self._stores: list[SqliteStore] = []

    def replacements(self) -> list[tuple[object, str, object]]:
        """Return the attributes to replace: owner, name and value."""
        history, disk, stores, trace = self._history, self.disk, self._stores, self._trace
        load, commit, publish = SqliteStore._load, SqliteStore._commit, SqliteStore._publish
        touch, close = SqliteStore._touch, SqliteStore._close_database

        def observed_load(store: SqliteStore) -> None:
            load(store)
            stores.append(store)
            history.loaded(store)

        def observed_commit(store: SqliteStore, batch: list[Any]) -> None:
            history.committing(batch)
            try:
                disk.call(commit, store, batch)
            except Exception as error:
                history.failed()
                trace.add("disk", f"write failed: {error}")
                raise

        def observed_publish(store: SqliteStore, batch: list[Any]) -> None:
            publish(store, batch)
            history.published(batch)

        def observed_checkpoint(path: Path, worth: int) -> None:
            if disk.log_bytes() >= worth:
                trace.add("disk", "checkpoint")
            disk.call(checkpoint, path, worth)

        return [
            (SqliteStore, "_load", observed_load),
            (SqliteStore, "_commit", observed_commit),
            (SqliteStore, "_publish", observed_publish),
            (SqliteStore, "_touch", lambda store: disk.call(touch, store)),
            (SqliteStore, "_close_database", lambda store: disk.call(close, store)),
            (sqlite_module, "checkpoint", observed_checkpoint),
            # Checkpoints are frequent, although the simulated clients write little.
            (sqlite_module, "CHECKPOINT_BYTES", 64 << 10),
            (sqlite_module, "BUSY_BYTES", 256 << 10),
            (database_module, "WAL_LIMIT_BYTES", 512 << 10),
        ]

    def set_full(self, *, full: bool) -> None:
        """Cause or end failures of writes that enlarge the database."""
        self.disk.full = full

    def crash_in(self, writes: int | None, *, tears: bool = False) -> None:
        """Cause a crash of the process in a later write; ``None`` for none.

        :param tears: the power is lost.
        """
        self.disk.crash_in, self.disk.tears = writes, tears

    def differences(self) -> str:
        """Return an empty string, because all copies are verified when they are loaded."""
        return ""

    def crash(self, process: int, drop: Callable[[], None]) -> None:
        """Call *drop*, which ends the process, and retain only what it has written."""
        files = self.disk.files()
        drop()
        self.ended(process)
        self.disk.restore(files)

    def ended(self, process: int) -> None:
        """Close the connections of a process that has ended."""
        for store in self._stores:
            if store._db is not None:
                store._db.close()
                store._db = None
        self._stores.clear()

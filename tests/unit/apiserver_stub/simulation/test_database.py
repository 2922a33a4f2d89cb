"""Tests for the observed database of the simulated server."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from apiserver_stub.simulation.database import Database
from apiserver_stub.storage.sqlite import SqliteStore
from tests.unit.apiserver_stub.simulation.stored import Stored


class Disk:
    def __init__(self) -> None:
        self.size, self.error = 0, False
        self.calls: list[str] = []

    def log_bytes(self) -> int:
        return self.size

    def call(self, function: Any, *arguments: Any) -> None:
        if self.error:
            raise OSError("disk full")

    def files(self) -> str:
        self.calls.append("files")
        return "content"

    def restore(self, files: str) -> None:
        self.calls.append(f"restore {files}")


class Harness:
    def __init__(self, directory: Path) -> None:
        self.stored, self.disk = Stored(), Disk()
        trace: Any = self.stored.trace
        self.database = Database(1, directory, self.stored.invariants.history, trace)
        self.database.disk = self.disk  # type: ignore[assignment]

    def replaced(self, name: str) -> Any:
        return next(value for _, attribute, value in self.database.replacements() if attribute == name)


@pytest.fixture
def harness(tmp_path: Path) -> Harness:
    return Harness(tmp_path)


@pytest.mark.parametrize(("size", "traced"), [(9, False), (10, True), (11, True)])
def test_checkpoint_is_traced_if_the_log_is_long_enough(harness: Harness, size: int, traced: bool) -> None:
    harness.disk.size = size

    harness.replaced("checkpoint")(Path("store.db"), 10)

    assert (("disk", "checkpoint") in harness.stored.trace.entries) is traced


def test_failed_write_is_recorded_in_the_history(harness: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    harness.disk.error = True
    batch, calls = [object()], list[str]()
    history = harness.stored.invariants.history
    monkeypatch.setattr(history, "committing", lambda found: calls.append(f"committing {found == batch}"))
    monkeypatch.setattr(history, "failed", lambda: calls.append("failed"))
    store: Any = SimpleNamespace()

    with pytest.raises(OSError, match="disk full"):
        harness.replaced("_commit")(store, batch)

    assert (calls, harness.stored.trace.entries) == (
        ["committing True", "failed"],
        [("disk", "write failed: disk full")],
    )


def test_databases_of_a_process_that_crashed_are_closed(harness: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = harness.disk.calls
    monkeypatch.setattr(SqliteStore, "_load", lambda store: None)
    monkeypatch.setattr(harness.stored.invariants.history, "loaded", lambda store: None)
    stores: list[Any] = [
        SimpleNamespace(_db=SimpleNamespace(close=lambda: calls.append("close"))),
        SimpleNamespace(_db=None),
    ]
    load = harness.replaced("_load")
    for store in stores:
        load(store)

    harness.database.crash(1, lambda: calls.append("drop"))

    assert calls == ["files", "drop", "close", "restore content"]
    assert stores[0]._db is None


def test_faults_are_those_of_the_disk(harness: Harness) -> None:
    harness.database.set_full(full=True)
    harness.database.crash_in(3, tears=True)

    disk: Any = harness.disk
    assert (disk.full, disk.crash_in, disk.tears) == (True, 3, True)

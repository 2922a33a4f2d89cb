"""Tests for the process of the simulated server: starts, ends, crashes and faults."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from apiserver_stub.simulation import node
from apiserver_stub.simulation.network import ServerLoop
from apiserver_stub.simulation.node import Server
from apiserver_stub.storage import StoreUnavailable
from apiserver_stub.storage.sqlite import SqliteStore
from nodeagent.base.simulation.clock import SimulatedClock
from nodeagent.base.simulation.loop import PROCESS
from nodeagent.base.tls import TlsError
from tests.unit.apiserver_stub.simulation.stored import Stored


class Harness:
    """Server whose start and stop take some time, and fail with the errors that the test sets."""

    def __init__(self, loop: ServerLoop, directory: Path) -> None:
        self.loop, self.stored = loop, Stored()
        self.start_error: Exception | None = None
        self.stop_error: Exception | None = None
        self.processes: list[int] = []
        trace: Any = self.stored.trace
        history = self.stored.invariants.history
        self.server = Server(1, loop, directory, history, trace, SimulatedClock(loop), lambda host, port: None)

    async def start(self, _options: Any) -> Any:
        self.processes.append(PROCESS.get())
        await asyncio.sleep(1.0)
        if self.start_error is not None:
            raise self.start_error
        return self

    async def stop(self) -> None:
        await asyncio.sleep(5.0)
        if self.stop_error is not None:
            raise self.stop_error

    def wait(self, seconds: float = 1.5) -> None:
        self.loop.run_until_complete(asyncio.sleep(seconds))

    @property
    def trace(self) -> list[str]:
        return [text for kind, text in self.stored.trace.entries if kind == "server"]


@pytest.fixture
def harness(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Harness]:
    loop = ServerLoop(1)
    asyncio.set_event_loop(loop)
    found = Harness(loop, tmp_path)
    monkeypatch.setattr(node, "start", found.start)
    yield found
    found.server.restarts = False
    found.server.crash()
    found.wait()
    asyncio.set_event_loop(None)
    loop.close()


def test_started_server_is_ready_and_calm(harness: Harness) -> None:
    harness.server.start()
    harness.wait(0.5)
    assert (harness.server.ready, harness.server.calm()) == (False, None)

    harness.wait()

    assert (harness.server.ready, harness.server.calm()) == (True, (1, 0))
    assert (harness.processes, harness.trace) == ([1], ["start 1", "ready 1 0"])


def test_calm_ends_with_a_fault_and_starts_after_its_effects(harness: Harness) -> None:
    harness.server.start()
    harness.wait()
    harness.server.disturb(10.0)
    harness.server.disturb(5.0)
    harness.wait(9.0)
    assert harness.server.calm() is None

    harness.wait(1.0)

    assert harness.server.calm() == (1, 2)


def test_stopped_server_starts_again_as_a_new_process(harness: Harness) -> None:
    harness.server.start()
    harness.wait()
    harness.server.stop()
    harness.server.stop()
    assert not harness.server.ready
    harness.wait(6.9)
    assert harness.trace == ["start 1", "ready 1 0", "stop 1", "end 1"]

    harness.wait(1.5)

    assert (harness.processes, harness.server.calm()) == ([1, 2], (2, 0))
    assert harness.server.failure is None


@pytest.mark.parametrize("power", [True, False])
def test_crashed_server_starts_again(harness: Harness, power: bool) -> None:
    harness.server.start()
    harness.wait()
    harness.server.crash(power=power)
    harness.server.crash(power=power)
    assert not harness.server.ready

    harness.wait(4.0)

    assert harness.trace[2:] == ["crash 1 power" if power else "crash 1", "start 2", "ready 2 0"]


def test_process_that_crashed_during_its_start_or_stop_has_no_effect(harness: Harness) -> None:
    harness.server.start()
    harness.wait(0.5)
    harness.server.crash()
    harness.wait(4.0)
    harness.server.stop()
    harness.wait(1.0)
    harness.server.crash()
    harness.wait(20.0)

    starts = [text for text in harness.trace if text.startswith(("start", "ready"))]
    assert starts == ["start 1", "start 2", "ready 2 0", "start 3", "ready 3 0"]
    assert harness.server.failure is None


def test_server_that_may_not_restart_remains_stopped(harness: Harness) -> None:
    harness.server.restarts = False
    harness.server.start()
    harness.wait()
    harness.server.stop()
    harness.wait(60.0)

    assert (harness.processes, harness.server.ready) == ([1], False)


def test_server_that_was_started_since_a_crash_is_not_started_again(harness: Harness) -> None:
    harness.server.start()
    harness.wait()
    harness.server.crash()
    harness.server.start()
    harness.wait(10.0)

    assert harness.processes == [1, 2]


def caused(error: Exception, cause: Exception) -> Exception:
    error.__cause__ = cause
    return error


@pytest.mark.parametrize(
    ("error", "fails"),
    [
        (OSError("disk full"), False),
        (StoreUnavailable("disk full"), False),
        (caused(TlsError("key"), OSError("disk full")), False),
        (caused(TlsError("key"), ValueError("no key")), True),
        (TlsError("key"), True),
        (caused(KeyError("x"), OSError("disk full")), True),
        (KeyError("x"), True),
    ],
    ids=repr,
)
def test_error_at_start_is_a_failure_unless_files_are_unavailable(
    harness: Harness, error: Exception, fails: bool
) -> None:
    harness.start_error = error
    harness.server.start()
    harness.wait()
    assert harness.server.failure is (error if fails else None)
    assert harness.trace[1].startswith("fail 1:" if fails else "failed 1 ")

    harness.start_error = None
    harness.wait(4.0)
    assert (harness.processes, harness.server.ready) == ([1, 2], True)


def test_error_at_stop_is_a_failure(harness: Harness) -> None:
    harness.stop_error = KeyError("x")
    harness.server.start()
    harness.wait()
    harness.server.stop()
    harness.wait(6.0)

    assert harness.server.failure is harness.stop_error


def test_crash_during_a_stop_hides_its_error(harness: Harness) -> None:
    harness.stop_error = KeyError("x")
    harness.server.start()
    harness.wait()
    harness.server.stop()
    harness.wait(1.0)
    harness.server.crash()
    harness.wait(10.0)

    assert harness.server.failure is None


# --- replaced functions


class Disk:
    def __init__(self) -> None:
        self.size, self.error = 0, False

    def log_bytes(self) -> int:
        return self.size

    def call(self, function: Any, *arguments: Any) -> None:
        if self.error:
            raise OSError("disk full")


def replaced(harness: Harness, name: str) -> Any:
    return next(value for _, attribute, value in harness.server.replacements() if attribute == name)


@pytest.mark.parametrize(("size", "traced"), [(9, False), (10, True), (11, True)])
def test_checkpoint_is_traced_if_the_log_is_long_enough(harness: Harness, size: int, traced: bool) -> None:
    disk: Any = Disk()
    disk.size, harness.server.database = size, disk

    replaced(harness, "checkpoint")(Path("store.db"), 10)

    assert (("disk", "checkpoint") in harness.stored.trace.entries) is traced


def test_failed_write_is_recorded_in_the_history(harness: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    disk: Any = Disk()
    disk.error, harness.server.database = True, disk
    batch, calls = [object()], list[str]()
    history = harness.stored.invariants.history
    monkeypatch.setattr(history, "committing", lambda found: calls.append(f"committing {found == batch}"))
    monkeypatch.setattr(history, "failed", lambda: calls.append("failed"))
    store: Any = SimpleNamespace()

    with pytest.raises(OSError, match="disk full"):
        replaced(harness, "_commit")(store, batch)

    assert (calls, harness.stored.trace.entries) == (
        ["committing True", "failed"],
        [("disk", "write failed: disk full")],
    )


def test_databases_of_a_process_that_ended_are_closed(harness: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    closed: list[str] = []
    monkeypatch.setattr(SqliteStore, "_load", lambda store: None)
    monkeypatch.setattr(harness.stored.invariants.history, "loaded", lambda store: None)
    stores: list[Any] = [
        SimpleNamespace(_db=SimpleNamespace(close=lambda: closed.append("open"))),
        SimpleNamespace(_db=None),
    ]
    load = replaced(harness, "_load")
    harness.server.start()
    harness.wait()
    for store in stores:
        load(store)

    harness.server.crash()

    assert (closed, stores[0]._db) == (["open"], None)

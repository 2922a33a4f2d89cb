"""Tests for the process of a simulated server: starts, ends and crashes."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from apiserver_stub.simulation import node
from apiserver_stub.simulation.cluster import Cluster
from apiserver_stub.simulation.network import ServerLoop
from apiserver_stub.storage import StoreUnavailable
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
        history, violate = self.stored.invariants.history, self.stored.violations.report
        clock = SimulatedClock(loop)
        self.cluster = Cluster(1, 1, loop, directory, history, violate, trace, clock, lambda host, port: None)
        (self.server,) = self.cluster.servers

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


def test_started_server_runs(harness: Harness) -> None:
    harness.server.start()
    harness.wait(0.5)
    assert harness.server.running is None

    harness.wait()

    assert harness.server.running is not None
    assert (harness.processes, harness.trace) == ([1], ["start 1", "ready 1 0"])


def test_stopped_server_starts_again_as_a_new_process(harness: Harness) -> None:
    harness.server.start()
    harness.wait()
    harness.server.stop()
    harness.server.stop()
    assert not harness.server.running
    harness.wait(6.9)
    assert harness.trace == ["start 1", "ready 1 0", "stop 1", "end 1"]

    harness.wait(1.5)

    assert (harness.processes, harness.server.process) == ([1, 2], 2)
    assert harness.server.failure is None


@pytest.mark.parametrize("power", [True, False])
def test_crashed_server_starts_again(harness: Harness, power: bool) -> None:
    harness.server.start()
    harness.wait()
    harness.server.crash(power=power)
    harness.server.crash(power=power)
    assert not harness.server.running

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

    assert (harness.processes, harness.server.running) == ([1], None)


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
    assert (harness.processes, harness.server.running is not None) == ([1, 2], True)


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

"""Tests for the simulated servers together: which of them stops or crashes, and times without faults."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Iterator
from contextvars import Context
from pathlib import Path
from typing import Any

import pytest

from apiserver_stub.simulation import node
from apiserver_stub.simulation.cluster import Cluster
from apiserver_stub.simulation.network import ServerLoop
from nodeagent.base.simulation.clock import SimulatedClock
from nodeagent.base.simulation.loop import PROCESS
from tests.unit.apiserver_stub.simulation.stored import Stored


class Harness:
    """Three servers that are ready after a second and stop immediately."""

    def __init__(self, loop: ServerLoop, directory: Path) -> None:
        self.loop, self.stored = loop, Stored()
        self.options: list[Any] = []
        trace: Any = self.stored.trace
        history, violate = self.stored.invariants.history, self.stored.violations.report
        clock = SimulatedClock(loop)
        self.cluster = Cluster(1, 3, loop, directory, history, violate, trace, clock, lambda host, port: None)

    async def start(self, options: Any) -> Any:
        self.options.append(options)
        await asyncio.sleep(1.0)
        return self

    async def stop(self) -> None:
        pass

    def wait(self, seconds: float = 1.5) -> None:
        self.loop.run_until_complete(asyncio.sleep(seconds))

    def run_as(self, process: int, function: Any) -> Any:
        context = Context()
        context.run(PROCESS.set, process)
        return context.run(function)

    @property
    def processes(self) -> list[int]:
        return [server.process for server in self.cluster.servers]


@pytest.fixture
def harness(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Harness]:
    loop = ServerLoop(1)
    asyncio.set_event_loop(loop)
    found = Harness(loop, tmp_path)
    monkeypatch.setattr(node, "start", found.start)
    yield found
    found.cluster.end()
    found.wait(10.0)
    assert found.processes == [0, 0, 0]
    asyncio.set_event_loop(None)
    loop.close()


def test_servers_have_their_own_addresses_directories_and_host_names(harness: Harness) -> None:
    harness.cluster.start()
    harness.wait()

    assert len({options.data_dir for options in harness.options}) == 3
    assert [str(options.advertise_address) for options in harness.options] == [f"192.0.2.{end}" for end in (10, 11, 12)]
    assert len({options.store_servers for options in harness.options}) == 1
    (host_name,) = [each for owner, name, each in harness.cluster.replacements() if name == "gethostname"]
    assert socket.gethostname != host_name
    names = [harness.run_as(process, host_name) for process in (1, 2, 3, 0)]
    assert names == ["server-0", "server-1", "server-2", "simulated"]


def test_cluster_is_calm_while_all_servers_run_without_faults(harness: Harness) -> None:
    harness.cluster.start()
    harness.wait(0.5)
    assert harness.cluster.calm() is None
    harness.wait()
    assert harness.cluster.calm() == (1, 2, 3, 0)

    harness.cluster.disturb(10.0)
    harness.cluster.disturb(5.0)
    harness.wait(9.0)
    assert harness.cluster.calm() is None
    harness.wait(1.0)
    assert harness.cluster.calm() == (1, 2, 3, 2)


def test_each_stop_is_that_of_another_server(harness: Harness) -> None:
    harness.cluster.start()
    harness.wait()

    for expected in ([1, 4, 3], [1, 4, 5], [6, 4, 5]):
        harness.cluster.stop()
        harness.wait(4.0)
        assert harness.processes == expected


def test_server_whose_callback_was_executed_crashes(harness: Harness) -> None:
    harness.cluster.start()
    harness.wait()
    harness.loop.current_process = 2

    harness.cluster.crash(power=True)
    assert harness.processes == [1, 0, 3]
    harness.cluster.crash(power=True)
    harness.wait(4.0)

    assert harness.processes == [1, 4, 3]


def test_first_failure_of_a_server_is_reported(harness: Harness) -> None:
    assert harness.cluster.failure is None

    harness.cluster.servers[2].failure = error = KeyError("x")

    assert harness.cluster.failure is error


def test_full_disk_is_that_of_all_servers_and_the_store(harness: Harness) -> None:
    for full in (True, False):
        harness.cluster.set_full(full=full)

        assert [server.files.full for server in harness.cluster.servers] == [full] * 3
        assert harness.cluster.etcd is not None
        assert harness.cluster.etcd.etcd.full is full


def test_files_that_a_server_has_synced_survive_a_loss_of_power(harness: Harness) -> None:
    paths = []
    with harness.cluster.mounted():
        for server in harness.cluster.servers:
            server.data_dir.mkdir()
            for number in range(20):
                paths.append(path := server.data_dir / f"file-{number}")
                with path.open("w") as file:
                    file.write("content")
                    file.flush()
                    os.fsync(file.fileno())

    lost = [server.files.lose_power() for server in harness.cluster.servers]

    assert lost == [0, 0, 0]
    assert {path.read_text() for path in paths} == {"content"}


def test_lock_of_a_crashed_process_is_released(harness: Harness) -> None:
    harness.cluster.start()
    harness.wait()
    server = harness.cluster.servers[0]
    server.data_dir.mkdir()
    lock, other = (os.open(server.data_dir / name, os.O_CREAT | os.O_RDWR) for name in ("server.lock", "other"))

    server.crash()

    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(lock)
    os.close(other)

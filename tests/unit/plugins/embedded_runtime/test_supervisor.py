"""Tests for the supervisor of the runtime process."""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from nodeagent.testing import FakeClock, eventually
from nodeagent_plugins.embedded_runtime import supervisor
from nodeagent_plugins.embedded_runtime.supervisor import Supervisor, find_server


class Server:
    """A process that serves the endpoint until :attr:`exited` is set."""

    pid = 7

    def __init__(self) -> None:
        self.exited = asyncio.Event()

    async def ended(self) -> None:
        await self.exited.wait()


class Host:
    """Starts servers; :attr:`errors` are the failures of the next starts."""

    def __init__(self) -> None:
        self.server: Server | None = None
        self.errors: list[Exception] = []
        self.starts: list[Sequence[str]] = []

    def start(self, words: Sequence[str], **_options: Any) -> None:
        self.starts.append(words)
        if self.errors:
            raise self.errors.pop(0)
        self.server = Server()

    def find(self, _path: Path) -> Server | None:
        if self.server is not None and self.server.exited.is_set():
            self.server = None
        return self.server


@pytest.fixture
async def host(monkeypatch: pytest.MonkeyPatch) -> Host:
    host = Host()
    monkeypatch.setattr(supervisor, "find_server", host.find)
    names = {**vars(subprocess), "run": host.start}
    monkeypatch.setattr(supervisor, "subprocess", SimpleNamespace(**names))
    return host


@pytest.fixture
async def run(host: Host, clock: FakeClock, tmp_path: Path) -> AsyncIterator[Any]:
    tasks = []

    def start() -> None:
        loop = Supervisor("unix:///run/x.sock", tmp_path / "root", ["--runner", "own"], clock)
        tasks.append(asyncio.create_task(loop.run()))

    yield start
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def test_running_server_is_not_started_again(
    host: Host, run: Any, clock: FakeClock, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    host.server = first = Server()
    run()
    await clock.advance(60)
    assert host.starts == []

    first.exited.set()
    await eventually(lambda: "Container runtime exited" in caplog.messages)
    await clock.advance(1)
    await eventually(lambda: host.server is not None and host.server is not first)

    (words,) = host.starts
    assert words[3:] == [
        *("--root", str(tmp_path / "root"), "--listen", "unix:///run/x.sock", "--runner", "own", "--detach")
    ]


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (subprocess.CalledProcessError(2, "x", stderr=" no nft \n"), "no nft"),
        (subprocess.CalledProcessError(2, "x", stderr=""), "Command 'x' returned non-zero exit status 2."),
        (FileNotFoundError("no python"), "no python"),
    ],
)
async def test_failed_start_is_logged_and_repeated(
    host: Host, run: Any, clock: FakeClock, caplog: pytest.LogCaptureFixture, error: Exception, text: str
) -> None:
    host.errors = [error]
    run()
    await eventually(lambda: host.starts)
    await eventually(lambda: caplog.records)
    assert [(record.message, vars(record)["err"]) for record in caplog.records] == [
        ("Failed to start embedded runtime", text)
    ]
    assert host.server is None

    await clock.advance(30)
    await eventually(lambda: host.server is not None)


def test_server_is_the_process_that_listens(tmp_path: Path) -> None:
    assert find_server(tmp_path / "s") is None
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "s"))
        assert find_server(tmp_path / "s") is None
        listener.listen()
        found = find_server(tmp_path / "s")

    assert found is not None and found.pid == os.getpid()

"""Tests for the client of the fork server, with a thread as the server."""

from __future__ import annotations

import os
import socket
import subprocess
import threading
from collections.abc import AsyncIterator, Sequence
from typing import Any

import pytest

from nodeagent_plugins.embedded_runtime import fork_server
from nodeagent_plugins.embedded_runtime.errors import CallError
from nodeagent_plugins.embedded_runtime.fork_server import ForkServer

RESPONSES = {"pause": b"7", "failing": b"error: no memory", "dying": b"", "silent": None}


class Server:
    """The process of a fork server: responds by the name of the helper, and exits with its connection."""

    def __init__(self, _command: Sequence[str], *, stdin: int, pass_fds: Sequence[int]) -> None:
        assert stdin == subprocess.DEVNULL
        self.connection = socket.socket(fileno=os.dup(pass_fds[0]))
        self.requests: list[bytes] = []
        self.kept: list[socket.socket] = []
        self.stubborn = self.killed = False
        self.thread = threading.Thread(target=self._serve, daemon=True)
        self.thread.start()

    def _serve(self) -> None:
        with self.connection:
            while True:
                try:
                    request, descriptors, _, _ = socket.recv_fds(self.connection, 4096, 1)
                except OSError:
                    break
                if not request:
                    break
                self.requests.append(request)
                response = socket.socket(fileno=descriptors[0])
                content = RESPONSES[request.split(b"\0")[0].decode()]
                if content is None:
                    self.kept.append(response)
                else:
                    response.sendall(content)
                    response.close()
        for response in self.kept:
            response.close()

    def crash(self) -> None:
        self.connection.shutdown(socket.SHUT_RDWR)
        self.thread.join()

    def wait(self, timeout: float | None = None) -> int:
        self.thread.join(timeout)
        if self.stubborn and timeout is not None:
            raise subprocess.TimeoutExpired("server", timeout)
        return 0

    def kill(self) -> None:
        self.killed = True


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[Server]:
    """The started servers."""
    found: list[Server] = []

    def start(command: Sequence[str], **options: Any) -> Server:
        found.append(Server(command, **options))
        return found[-1]

    monkeypatch.setattr(fork_server.subprocess, "Popen", start)
    return found


@pytest.fixture
async def helpers(started: list[Server], tmp_path: Any) -> AsyncIterator[ForkServer]:
    helpers = ForkServer(tmp_path)
    yield helpers
    await helpers.close()


async def run(helpers: ForkServer, name: str, *arguments: str, timeout_seconds: float = 60.0) -> str:
    return await helpers.run(name, *arguments, attempt="start", timeout_seconds=timeout_seconds)


async def test_one_server_starts_all_helpers(helpers: ForkServer, started: list[Server]) -> None:
    assert [await run(helpers, "pause", "a", "") for _ in range(2)] == ["7", "7"]

    (server,) = started
    assert server.requests == [b"pause\0a\0"] * 2


@pytest.mark.parametrize(
    ("name", "seconds", "reason"),
    [
        ("failing", 60.0, "no memory"),
        ("dying", 60.0, "the helper process exited"),
        ("silent", 0.01, "timed out after 0.01 s"),
    ],
)
async def test_helper_that_fails_is_reported(helpers: ForkServer, name: str, seconds: float, reason: str) -> None:
    with pytest.raises(CallError) as caught:
        await run(helpers, name, timeout_seconds=seconds)

    assert str(caught.value) == f"start: {reason}"


async def test_server_that_was_killed_is_started_again(helpers: ForkServer, started: list[Server]) -> None:
    await run(helpers, "pause")
    started[0].crash()

    assert await run(helpers, "pause") == "7"
    assert len(started) == 2


@pytest.mark.parametrize("stubborn", [True, False])
async def test_closed_server_exits(helpers: ForkServer, started: list[Server], stubborn: bool) -> None:
    await run(helpers, "pause")
    started[0].stubborn = stubborn

    await helpers.close()
    await helpers.close()

    assert not started[0].thread.is_alive()
    assert started[0].killed == stubborn


async def test_failure_to_start_the_server_is_reported(helpers: ForkServer, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_arguments: Any, **_options: Any) -> None:
        raise FileNotFoundError(2, "No such file or directory")

    monkeypatch.setattr(fork_server.subprocess, "Popen", fail)

    with pytest.raises(CallError, match=r"start: .*No such file"):
        await run(helpers, "pause")

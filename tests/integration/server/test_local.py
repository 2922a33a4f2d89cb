"""Tests for the local socket: queries by root on the same host."""

from __future__ import annotations

import asyncio
import socket
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec
import pytest

from nodeagent import local_client
from nodeagent.base.aio import TaskOwner
from nodeagent.contracts.local import LOCAL_SOCKET, LocalQuery
from nodeagent.server.local import LocalServer
from nodeagent.testing.clock import eventually


class Greeting(msgspec.Struct):
    name: str = ""


@asynccontextmanager
async def serving(root: Path):
    async def greet(request: Greeting) -> Greeting:
        if request.name == "unknown":
            raise ValueError("is unknown")
        if request.name == "crowd":
            raise RuntimeError("too many")
        return Greeting(f"hello {request.name}")

    async with TaskOwner("test") as tasks:
        tasks.start(LocalServer(root, [LocalQuery("greet", Greeting, greet)]).run(), "local")
        await eventually((root / LOCAL_SOCKET).exists)
        yield root / LOCAL_SOCKET


async def query(root: Path, name: str, arguments: object) -> Greeting:
    return await asyncio.to_thread(local_client.query, root, name, arguments, Greeting)


async def test_query_has_a_response(tmp_path: Path):
    async with serving(tmp_path) as socket_path:
        assert socket_path.stat().st_mode & 0o777 == 0o600
        assert await query(tmp_path, "greet", Greeting("world")) == Greeting("hello world")
    assert not socket_path.exists()


async def test_failed_query_has_an_error(tmp_path: Path):
    async with serving(tmp_path):
        for name, arguments, text in (
            ("greet", Greeting("unknown"), "is unknown"),
            ("greet", Greeting("crowd"), r"internal error: RuntimeError\('too many'\)"),
            ("greet", {"name": 7}, "Expected `str`"),
            ("dance", {}, r'unknown query "dance" \(supported: greet\)'),
        ):
            with pytest.raises(local_client.AgentRequestFailed, match=text):
                await query(tmp_path, name, arguments)


async def test_stale_socket_is_replaced(tmp_path: Path):
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(str(tmp_path / LOCAL_SOCKET))
    with pytest.raises(local_client.AgentUnreachable, match="start it, or specify its directory with --root-dir"):
        await query(tmp_path, "greet", Greeting())

    async with TaskOwner("test") as tasks:
        tasks.start(LocalServer(tmp_path, []).run(), "local")

        await eventually(lambda: (tmp_path / LOCAL_SOCKET).stat().st_mode & 0o777 == 0o600)
        with pytest.raises(local_client.AgentRequestFailed):
            await query(tmp_path, "greet", Greeting())


async def test_other_users_are_rejected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    async with serving(tmp_path):
        monkeypatch.setattr("nodeagent.server.local._peer", lambda writer: 1234)

        with pytest.raises(local_client.AgentRequestFailed, match="only root has access"):
            await query(tmp_path, "greet", Greeting("world"))


async def test_path_too_long_for_a_socket_disables_only_queries(tmp_path: Path, caplog: pytest.LogCaptureFixture):
    async with TaskOwner("test") as tasks:
        task = tasks.start(LocalServer(tmp_path / ("x" * 120), []).run(), "local")

        await eventually(lambda: "Failed to serve local queries" in caplog.text)
        assert not task.done()

"""Tests for the client of container shims, with a fake shim."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from nodeagent_plugins.embedded_runtime.errors import CallError
from nodeagent_plugins.embedded_runtime.shim_client import command_shim, open_shim


@asynccontextmanager
async def shim(directory: Path, response: bytes) -> AsyncIterator[list[bytes]]:
    """Serve a shim with a fixed response; yields the received commands."""
    commands = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        commands.append(await reader.readline())
        writer.write(response)
        writer.close()

    server = await asyncio.start_unix_server(serve, directory / "control")
    async with server:
        yield commands


async def test_accepted_command_returns_the_connection(tmp_path: Path) -> None:
    async with shim(tmp_path, b"ok\nmore") as commands:
        await command_shim(tmp_path, "reopen")
        reader, writer = await open_shim(tmp_path, "attach")
        rest = await reader.read()
        writer.close()

    assert commands == [b"reopen\n", b"attach\n"]
    assert rest == b"more"


@pytest.mark.parametrize(
    ("response", "reason"),
    [(b"no terminal\n", "no terminal"), (b"", "the shim closed the connection"), (b"ok", "ok")],
)
async def test_rejected_command_raises_the_reason(tmp_path: Path, response: bytes, reason: str) -> None:
    async with shim(tmp_path, response):
        with pytest.raises(CallError) as caught:
            await open_shim(tmp_path, "resize 1 2")

    assert str(caught.value) == f"resize 1 2: {reason}"


async def test_missing_shim_is_reported(tmp_path: Path) -> None:
    with pytest.raises(CallError, match="reopen: the container shim does not respond"):
        await command_shim(tmp_path, "reopen")

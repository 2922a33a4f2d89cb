"""Tests for the supervisor of the embedded runtime: start, restart, and no stop with the agent."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import signal
import tempfile
from pathlib import Path

import pytest

from nodeagent.base.aio import SystemClock
from nodeagent_plugins.embedded_runtime.passable_root import alias_of
from nodeagent_plugins.embedded_runtime.supervisor import Supervisor, find_server
from tests.integration.embedded_runtime.test_pods import until

pytestmark = [pytest.mark.integration, pytest.mark.row("card.embedded-runtime")]


async def test_missing_or_exited_runtime_is_started():
    home = Path(tempfile.mkdtemp(prefix="embedded-"))
    socket = home / "cri.sock"
    supervisor = Supervisor(f"unix://{socket}", home / "root", ["--network", "host"], SystemClock())
    running = asyncio.create_task(supervisor.run())
    try:
        await until(lambda: asyncio.to_thread(find_server, socket))
        first = await asyncio.to_thread(find_server, socket)
        os.kill(first.pid, signal.SIGKILL)

        async def another_serves() -> bool:
            return (await asyncio.to_thread(find_server, socket)) not in (None, first)

        await until(another_serves)
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        await asyncio.get_running_loop().shutdown_default_executor()  # It may still start a process.
        left = find_server(socket)
        if left is not None:
            await left.end(10)
        with contextlib.suppress(OSError):
            shutil.rmtree(home)

    assert left is not None, "the runtime went with its supervisor"


async def test_failed_start_is_logged_with_its_reason(tmp_path, caplog):
    supervisor = Supervisor(f"unix://{tmp_path}/s", tmp_path / "root", ["--runner", "docker"], SystemClock())
    running = asyncio.create_task(supervisor.run())
    try:
        await until(lambda: asyncio.sleep(0, "Failed to start embedded runtime" in caplog.text))
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)

    assert any("unknown runner" in record.err for record in caplog.records if hasattr(record, "err"))
    assert not alias_of(tmp_path / "root").exists()

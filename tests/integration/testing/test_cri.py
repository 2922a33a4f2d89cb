"""Tests for the fake CRI runtime in a separate process, through the client of the agent."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import pytest

from nodeagent.base.aio import SystemClock
from nodeagent.contracts.runtime import SandboxConfig
from nodeagent.testing.contracts import RuntimeContract
from nodeagent.testing.cri import RuntimeHandle, started_runtime
from nodeagent_plugins.cri.client import CriRuntime
from nodeagent_plugins.cri.connection import Connection

pytestmark = pytest.mark.integration


@pytest.fixture(scope="module")
def process(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RuntimeHandle]:
    with started_runtime(tmp_path_factory.mktemp("runtime")) as handle:
        yield handle


class TestFakeCriRuntime(RuntimeContract):
    @pytest.fixture
    async def runtime(self, process: RuntimeHandle) -> AsyncIterator[CriRuntime]:
        client = CriRuntime(Connection(process.endpoint, timeout_seconds=30), SystemClock())
        yield client
        await client.close()

    @pytest.fixture
    def command(self) -> Callable[[str, int | None], dict[str, Any]]:
        def command(_name: str, exit_code: int | None) -> dict[str, Any]:
            return {"command": ("sleep", "1000") if exit_code is None else ("exit", str(exit_code))}

        return command

    async def test_calls_are_counted(self, runtime: CriRuntime) -> None:
        before = json.loads((await runtime.info())["calls"]).get("Version", 0)
        await runtime.version()

        assert json.loads((await runtime.info())["calls"])["Version"] == before + 1

    async def test_change_is_notified(self, runtime: CriRuntime, sandbox: SandboxConfig) -> None:
        async with asyncio.timeout(20):
            changed = asyncio.ensure_future(anext(runtime.changes()))
            while not changed.done():  # The subscription has no confirmation.
                await runtime.remove_sandbox(await runtime.run_sandbox(sandbox))

        await changed

"""Tests for the graceful shutdown of the server."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from apiserver_stub.lifecycle import Lifecycle
from apiserver_stub.options import parse
from apiserver_stub.server.running_server import RunningServer


class Steps:
    """Components of a server that record the steps of its shutdown."""

    def __init__(self, *arguments: str, watches: int = 0) -> None:
        self.steps: list[str] = []
        self.lifecycle = Lifecycle(0)
        self.metrics = SimpleNamespace(watches=watches)
        resources = AsyncExitStack()
        resources.callback(self.steps.append, "close")
        fake: Any = SimpleNamespace(
            withdraw=self._withdraw,
            stop=self._step("stop listening"),
            drained=self._step("drain"),
            metrics=self.metrics,
        )
        metrics: Any = self.metrics
        self.server = RunningServer(
            options=parse(list(arguments)),
            url="",
            ca_file=Path(),
            token="",
            kubeconfig=Path(),
            node_kubeconfig=Path(),
            client_ca_file=None,
            lifecycle=self.lifecycle,
            store=fake,
            metrics=metrics,
            limits=fake,
            audit=None,
            listener=fake,
            kubernetes_service=fake,
            resources=resources,
        )

    def _step(self, name: str) -> Any:
        async def step() -> None:
            self.steps.append(name)

        return step

    async def _withdraw(self) -> None:
        self.steps.append("withdraw")


async def test_endpoint_is_removed_and_requests_finish_before_resources_close() -> None:
    found = Steps()

    await found.server.stop()

    assert found.steps == ["withdraw", "stop listening", "drain", "close"]
    assert found.lifecycle.terminating and found.lifecycle.draining and found.lifecycle.stopping.is_set()


async def test_shutdown_that_has_started_only_closes_resources() -> None:
    found = Steps()
    found.lifecycle.terminating = True

    await found.server.stop()

    assert found.steps == ["close"]


async def test_listener_stays_open_to_send_retry_after() -> None:
    found = Steps("--shutdown-send-retry-after=true")

    await found.server.stop()

    assert found.steps == ["withdraw", "drain", "close"]


@pytest.mark.parametrize("period", ["0s", "60s"])
async def test_watches_are_awaited_for_their_grace_period(period: str) -> None:
    found = Steps(f"--shutdown-watch-termination-grace-period={period}", watches=1)
    stopping = asyncio.ensure_future(found.server.stop())
    for _ in range(20):
        await asyncio.sleep(0)

    assert ("close" in found.steps) is (period == "0s")
    found.metrics.watches = 0
    await stopping
    assert found.steps[-1] == "close"

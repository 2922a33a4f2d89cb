"""Tests for the watch of the node."""

from __future__ import annotations

import asyncio

import pytest

from nodeagent.contracts.api import NODES
from nodeagent.node.watcher import NodeWatcher
from nodeagent.testing import FakeApi, FakeClock


async def test_failure_and_recovery_are_logged_once(clock: FakeClock, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    api = FakeApi(clock)
    api.put(NODES, {"metadata": {"name": "n1"}})
    task = asyncio.create_task(NodeWatcher(api, "n1", clock).run())
    await clock.advance(1)
    api.outage = True
    await clock.advance(60)
    api.outage = False
    api.put(NODES, {"metadata": {"name": "n1", "labels": {"a": "b"}}})
    await clock.advance(120)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)

    assert [record.message for record in caplog.records] == ["Failed to watch node", "Node watch recovered"]

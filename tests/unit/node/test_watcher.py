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


async def test_updated_and_deleted_nodes_are_followed(clock: FakeClock, caplog: pytest.LogCaptureFixture) -> None:
    api, watched = FakeApi(clock), []
    watcher = NodeWatcher(api, "n1", clock)
    task = asyncio.create_task(watcher.run())
    for labels in ({"a": "b"}, {"a": "c"}):
        api.put(NODES, {"metadata": {"name": "n1", "labels": labels}})
        await clock.advance(1)
        watched.append(watcher.node["metadata"]["labels"] if watcher.node else None)
    assert caplog.messages == []
    api.remove(NODES, "n1")
    await clock.advance(1)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)

    assert watched == [{"a": "b"}, {"a": "c"}]
    assert watcher.node is None
    assert caplog.messages == ["Node object was deleted, restart to register it"]


async def test_later_failure_is_logged_again(clock: FakeClock, caplog: pytest.LogCaptureFixture) -> None:
    api = FakeApi(clock)
    task = asyncio.create_task(NodeWatcher(api, "n1", clock).run())
    for _ in range(2):
        api.outage = True
        await clock.advance(60)
        api.outage = False
        api.put(NODES, {"metadata": {"name": "n1"}})
        await clock.advance(120)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)

    assert caplog.messages == ["Failed to watch node"] * 2

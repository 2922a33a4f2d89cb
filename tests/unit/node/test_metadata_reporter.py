"""Tests for sending reported node metadata: failures are logged once and retried."""

from __future__ import annotations

import asyncio

import pytest

from nodeagent.contracts.api import NODES
from nodeagent.contracts.node import NodeReport
from nodeagent.errors import ApiError, ApiUnavailable
from nodeagent.node.metadata_reporter import NodeMetadataReporter
from nodeagent.node.watcher import NodeWatcher
from nodeagent.testing import FakeApi, FakeClock

RACK = {"shelf": NodeReport(labels={"rack": "r1"})}
FAILED = "Failed to update node metadata that plugins report, will retry"
UPDATED = "Updated node metadata that plugins report"


async def watched(api: FakeApi, clock: FakeClock) -> NodeWatcher:
    """Return a watcher with the current node."""
    watcher = NodeWatcher(api, "n1", clock)
    task = asyncio.create_task(watcher.run())
    await clock.advance(1)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    return watcher


async def test_changes_are_sent_once(api: FakeApi, clock: FakeClock, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    api.put(NODES, {"metadata": {"name": "n1"}})
    watcher, reporter = await watched(api, clock), NodeMetadataReporter("n1", lambda: api)

    for _ in range(2):
        await reporter.report(watcher, RACK, ("shelf",))

    assert len(api.made("patch", NODES)) == 1
    assert watcher.node is not None and watcher.node["metadata"]["labels"] == {"rack": "r1"}
    assert caplog.messages == [UPDATED]


async def test_nothing_is_sent_without_a_node_or_a_client(api: FakeApi, clock: FakeClock) -> None:
    reporter = NodeMetadataReporter("n1", lambda: api)
    await reporter.report(await watched(api, clock), RACK, ("shelf",))

    api.put(NODES, {"metadata": {"name": "n1"}})
    await NodeMetadataReporter("n1", lambda: None).report(await watched(api, clock), RACK, ("shelf",))

    assert len(api.made("patch", NODES)) == 0


async def test_each_error_is_logged_once(api: FakeApi, clock: FakeClock, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    api.put(NODES, {"metadata": {"name": "n1"}})
    watcher, reporter = await watched(api, clock), NodeMetadataReporter("n1", lambda: api)
    rejected, gone = ApiError("forbidden", code=403), ApiUnavailable("no answer")

    for error in (rejected, rejected, gone, None):
        if error is not None:
            api.fail("patch", error)
        await reporter.report(watcher, RACK, ("shelf",))

    assert caplog.messages == [FAILED, FAILED, UPDATED]
    assert [record.err for record in caplog.records[:2]] == ["forbidden", "no answer"]  # type: ignore[attr-defined]

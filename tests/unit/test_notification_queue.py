"""Tests for the queue of notifications of plugins."""

from __future__ import annotations

import asyncio

import pytest

from nodeagent import hookimpl, notification_queue
from nodeagent.base.aio import TaskOwner
from nodeagent.notification_queue import NotificationQueue
from nodeagent.pluginmanager import PluginManager
from nodeagent.testing import make_pod


class Slow:
    """Plugin that is notified of pods one at a time, while it is open."""

    def __init__(self):
        self.open, self.seen = asyncio.Event(), []

    @hookimpl
    async def nodeagent_pod_terminated(self, pod):
        await self.open.wait()
        self.seen.append(pod.name)


@pytest.fixture
async def tasks():
    tasks = TaskOwner("test")
    yield tasks
    await tasks.close()


@pytest.fixture
def queue(tasks, monkeypatch):
    monkeypatch.setattr(notification_queue, "QUEUE_LENGTH", 3)
    manager = PluginManager()
    return NotificationQueue(manager, tasks, "nodeagent_pod_terminated", "pod"), manager


async def test_oldest_notifications_are_dropped_with_one_warning(queue, caplog):
    queue, manager = queue
    slow = Slow()
    manager.register(slow, name="slow")
    for name in ("a", "b", "c", "d"):
        queue.put(make_pod(name))
        await asyncio.sleep(0)
    assert caplog.messages == [], "the first one is no longer in the queue"
    for name in ("e", "f"):
        queue.put(make_pod(name))
    assert caplog.messages == ["Dropping the oldest notifications, plugins are too slow"]

    slow.open.set()
    await queue.flush(5.0)
    await asyncio.sleep(0)

    assert sorted(slow.seen) == ["a", "d", "e", "f"]


async def test_nothing_is_queued_without_a_plugin(queue):
    queue, manager = queue
    queue.put(make_pod("a"))
    assert not queue.needed
    slow = Slow()
    slow.open.set()
    manager.register(slow, name="slow")

    queue.put(make_pod("b"))
    await queue.flush(5.0)

    assert slow.seen == ["b"]

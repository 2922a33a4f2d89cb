"""Tests for the notification of plugins about events."""

import asyncio

from nodeagent import hookimpl
from nodeagent.base.aio import TaskOwner
from nodeagent.contracts.events import EventType
from nodeagent.event_listeners import EventListeners
from nodeagent.model.meta import ObjectReference
from nodeagent.notification_queue import QUEUE_LENGTH
from nodeagent.pluginmanager import PluginManager
from nodeagent.testing import FakeRecorder

POD = ObjectReference(kind="Pod", name="web", uid="a")


class Listener:
    def __init__(self):
        self.received, self.gate = [], asyncio.Event()

    @hookimpl
    async def nodeagent_event_recorded(self, event):
        await self.gate.wait()
        self.received.append(event.note)


def build(tasks, *listeners):
    plugins, recorder = PluginManager(), FakeRecorder()
    for number, listener in enumerate(listeners):
        plugins.register(listener, name=f"listener-{number}")
    return EventListeners(recorder, plugins, tasks), recorder


async def test_hook_event_recorded():
    listener = Listener()
    async with TaskOwner("test") as tasks:
        recorder, forwarded = build(tasks, listener)
        for number in range(3):
            recorder.record(POD, EventType.WARNING, "Failed", f"note {number}", annotations={"a": "b"})

        assert [event.note for event in forwarded.events] == ["note 0", "note 1", "note 2"]
        assert forwarded.events[0].annotations == {"a": "b"}
        assert listener.received == []
        listener.gate.set()
        await recorder.flush(30)

    assert listener.received == ["note 0", "note 1", "note 2"]


async def test_events_are_not_queued_without_a_plugin():
    async with TaskOwner("test") as tasks:
        recorder, forwarded = build(tasks)
        recorder.record(POD, EventType.NORMAL, "Pulled", "note")

        assert len(tasks) == 0
        assert forwarded.reasons() == ["Pulled"]


async def test_oldest_events_are_dropped_for_a_slow_plugin(caplog):
    listener = Listener()
    async with TaskOwner("test") as tasks:
        recorder, forwarded = build(tasks, listener)
        for number in range(QUEUE_LENGTH + 2):
            recorder.record(POD, EventType.NORMAL, "Pulled", str(number))
        listener.gate.set()
        await recorder.flush(30)

    assert listener.received == [str(number) for number in range(2, QUEUE_LENGTH + 2)]
    assert len(forwarded.events) == QUEUE_LENGTH + 2
    assert [record.message for record in caplog.records].count(
        "Dropping the oldest notifications, plugins are too slow"
    ) == 1


async def test_flush_sends_queued_events_on_shutdown():
    listener = Listener()
    listener.gate.set()
    tasks = TaskOwner("test")
    recorder, _ = build(tasks, listener)
    await tasks.close()
    recorder.record(POD, EventType.NORMAL, "Killing", "at the end")

    await recorder.flush(30)

    assert listener.received == ["at the end"]

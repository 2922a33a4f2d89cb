"""Plugins learn of events; nobody waits for them."""

import asyncio

from nodeagent import hookimpl
from nodeagent.base.aio import TaskOwner
from nodeagent.contracts.events import EventType
from nodeagent.event_listeners import WAITING, EventListeners
from nodeagent.model.meta import ObjectReference
from nodeagent.pluginmanager import PluginManager
from nodeagent.testing import FakeRecorder

POD = ObjectReference(kind="Pod", name="web", uid="a")


class Listener:
    def __init__(self):
        self.told, self.gate = [], asyncio.Event()

    @hookimpl
    async def nodeagent_event_recorded(self, event):
        await self.gate.wait()
        self.told.append(event.note)


def build(tasks, *listeners):
    plugins, recorder = PluginManager(), FakeRecorder()
    for number, listener in enumerate(listeners):
        plugins.register(listener, name=f"listener-{number}")
    return EventListeners(recorder, plugins, tasks), recorder


async def test_hook_event_recorded():
    listener = Listener()
    async with TaskOwner("test") as tasks:
        recorder, passed_on = build(tasks, listener)
        for number in range(3):
            recorder.record(POD, EventType.WARNING, "Failed", f"note {number}", annotations={"a": "b"})

        assert [event.note for event in passed_on.events] == ["note 0", "note 1", "note 2"]
        assert passed_on.events[0].annotations == {"a": "b"}
        assert listener.told == []
        listener.gate.set()
        await recorder.flush(30)

    assert listener.told == ["note 0", "note 1", "note 2"]


async def test_without_a_listener_nothing_waits():
    async with TaskOwner("test") as tasks:
        recorder, passed_on = build(tasks)
        recorder.record(POD, EventType.NORMAL, "Pulled", "note")

        assert len(tasks) == 0
        assert passed_on.reasons() == ["Pulled"]


async def test_the_oldest_go_untold_when_a_listener_is_slow(caplog):
    listener = Listener()
    async with TaskOwner("test") as tasks:
        recorder, passed_on = build(tasks, listener)
        for number in range(WAITING + 2):
            recorder.record(POD, EventType.NORMAL, "Pulled", str(number))
        listener.gate.set()
        await recorder.flush(30)

    assert listener.told == [str(number) for number in range(2, WAITING + 2)]
    assert len(passed_on.events) == WAITING + 2
    assert [record.message for record in caplog.records].count(
        "Plugins are too slow for the events: the oldest go untold"
    ) == 1


async def test_events_of_the_end_are_told_by_the_flush():
    listener = Listener()
    listener.gate.set()
    tasks = TaskOwner("test")
    recorder, _ = build(tasks, listener)
    await tasks.close()
    recorder.record(POD, EventType.NORMAL, "Killing", "at the end")

    await recorder.flush(30)

    assert listener.told == ["at the end"]

"""Tests for the change feed of controllers."""

from __future__ import annotations

import asyncio
import itertools
from typing import Any

import pytest

from apiserver_stub.controllers.change_feed import STEP_RECORDS, ChangeFeed
from apiserver_stub.storage import Record
from tests.unit.apiserver_stub.authz.conftest import Memory

MAPS, PODS = "core/configmaps", "core/pods"


class Recorder:
    """A handler that records what it receives."""

    def __init__(self) -> None:
        self.received: list[str] = []

    def reset(self) -> None:
        self.received.append("reset")

    def see(self, collection: str, record: Record, previous: Record | None) -> None:
        if record.key == "n/malformed":
            raise TypeError("'int' object is not iterable")
        self.received.append(f"{collection} {record.key}{'' if previous is None else ' again'}")

    def remove(self, collection: str, record: Record) -> None:
        self.received.append(f"{collection} {record.key} removed")


def obj(name: str) -> dict[str, Any]:
    return {"metadata": {"name": name, "namespace": "n"}}


def feed(store: Any, handler: Recorder) -> ChangeFeed:
    return ChangeFeed(store, [MAPS, PODS], handler)


async def test_objects_come_first_then_every_change() -> None:
    store, handler = Memory(), Recorder()
    store.put(MAPS, obj("a"))
    task = asyncio.ensure_future(feed(store, handler).run())
    await asyncio.sleep(0.01)
    store.put(PODS, obj("p"))
    store.put(MAPS, obj("a"))
    await asyncio.sleep(0.01)
    store.remove(MAPS, "n/a")
    await asyncio.sleep(0.01)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)

    assert handler.received == ["reset", f"{MAPS} n/a", f"{MAPS} n/a again", f"{PODS} n/p", f"{MAPS} n/a removed"]


async def test_malformed_object_does_not_stop_the_feed(caplog: pytest.LogCaptureFixture) -> None:
    store, handler = Memory(), Recorder()
    for name in ("malformed", "well-formed"):
        store.put(MAPS, obj(name))

    await feed(store, handler).catch_up()

    assert handler.received == ["reset", f"{MAPS} n/well-formed"]
    assert [record.message for record in caplog.records] == ["Failed to handle object, ignoring"]


async def test_compacted_history_restarts_the_feed() -> None:
    store, handler = Memory(), Recorder()
    store.put(MAPS, obj("a"))
    followed = feed(store, handler)
    await followed.catch_up()
    store.put(MAPS, obj("b"))
    store.collection(MAPS).compact(store.writes)
    handler.received.clear()

    await followed.catch_up()

    assert handler.received == ["reset", f"{MAPS} n/a", f"{MAPS} n/b"]


async def test_long_feed_yields_between_steps() -> None:
    store, handler, seen = Memory(), Recorder(), []
    for number in range(2000):
        store.put(MAPS, obj(f"m{number}"))

    async def other() -> None:
        while True:
            seen.append(len(handler.received))
            await asyncio.sleep(0)

    meter = asyncio.ensure_future(other())
    await feed(store, handler).catch_up()
    meter.cancel()
    await asyncio.gather(meter, return_exceptions=True)

    assert max(after - before for before, after in itertools.pairwise(seen)) <= STEP_RECORDS


async def test_feed_continues_when_a_worker_restarts_it() -> None:
    store, handler = Memory(), Recorder()
    for number in range(3 * STEP_RECORDS):
        store.put(MAPS, obj(f"m{number}"))
    followed = feed(store, handler)
    task = asyncio.ensure_future(followed.run())
    await asyncio.sleep(0.05)
    store.put(PODS, obj("p"))
    store.collection(PODS).reset(store.collection(PODS).select(), store.writes)
    workers = [asyncio.ensure_future(followed.catch_up()) for _ in range(3)]
    for _ in range(10):
        await asyncio.sleep(0)
        store.put(MAPS, obj("late"))
    await asyncio.gather(*workers)
    await asyncio.sleep(0.05)

    assert not task.done()
    assert handler.received[-1] == f"{MAPS} n/late again"
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)

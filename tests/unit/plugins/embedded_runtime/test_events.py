"""Tests for the subscribers of container events."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from nodeagent.base.criproto import api_pb2 as cri
from nodeagent_plugins.embedded_runtime import events as events_module
from nodeagent_plugins.embedded_runtime.events import Events


def event(number: int) -> Any:
    return cri.ContainerEventResponse(container_id=str(number))


async def test_event_is_passed_to_all_subscribers() -> None:
    events = Events()
    streams = [events.listen() for _ in range(2)]
    waiting = [asyncio.ensure_future(anext(stream)) for stream in streams]
    await asyncio.sleep(0)
    assert len(events) == 2

    events.send(event(1))

    assert [(await each).container_id for each in waiting] == ["1", "1"]
    for stream in streams:
        await stream.aclose()
    assert len(events) == 0


async def test_stream_of_a_slow_subscriber_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(events_module, "MAX_WAITING", 2)
    events = Events()
    stream = events.listen()
    first = asyncio.ensure_future(anext(stream))
    await asyncio.sleep(0)

    for number in range(4):
        events.send(event(number))

    assert len(events) == 0
    assert [(await first).container_id] + [each.container_id async for each in stream] == ["0", "1"]

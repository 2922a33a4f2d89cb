"""Tests for bodies of requests: flow control, incomplete and discarded data."""

from __future__ import annotations

import asyncio

import pytest

from apiserver_stub.transport.http import MalformedBody
from apiserver_stub.transport.http1.body import RequestBody

HIGH, LOW = 128 << 10, 16 << 10


class Flow:
    """Connection that records whether it receives."""

    def __init__(self) -> None:
        self.paused = False

    def pause_body(self) -> None:
        self.paused = True

    def resume_body(self) -> None:
        self.paused = False


@pytest.fixture
def flow() -> Flow:
    return Flow()


async def test_receiving_pauses_above_the_limit_until_most_is_read(flow: Flow) -> None:
    body, states = RequestBody(flow), []
    for size in (HIGH - LOW - 1, LOW + 1, 1):
        body.feed(b"x" * size)
        states.append(flow.paused)
    for _ in range(2):
        await body.take()
        states.append(flow.paused)

    assert states == [False, False, True, True, False]


async def test_receiving_resumes_at_the_lower_limit(flow: Flow) -> None:
    body = RequestBody(flow)
    body.feed(b"x" * HIGH)
    body.feed(b"x" * LOW)

    await body.take()

    assert not flow.paused


def test_complete_body_is_taken_in_one_piece(flow: Flow) -> None:
    body = RequestBody(flow)
    body.feed(b"a")
    before = body.take_all()
    body.feed(b"b")
    body.finish()

    assert (before, body.take_all(), body.unread) == (None, b"ab", False)


async def test_reader_waits_for_data_and_the_end(flow: Flow) -> None:
    body = RequestBody(flow)
    first = asyncio.ensure_future(body.take())
    await asyncio.sleep(0)
    body.feed(b"a")
    data = await first
    complete = asyncio.ensure_future(body.wait_complete())
    await asyncio.sleep(0)
    waits = not complete.done()
    body.finish()
    await complete

    assert (data, waits, await body.take(), body.unread) == (b"a", True, b"", False)


async def test_failed_body_is_malformed_after_its_data(flow: Flow) -> None:
    body = RequestBody(flow)
    body.feed(b"a")
    body.fail("too short")
    await body.wait_complete()

    assert (await body.take(), body.unread) == (b"a", True)
    with pytest.raises(MalformedBody, match="too short"):
        await body.take()


def test_discarded_data_is_not_kept(flow: Flow) -> None:
    body = RequestBody(flow)
    body.feed(b"x" * (HIGH + 1))
    body.discard()
    body.feed(b"x" * (HIGH + 1))

    assert (flow.paused, body.unread) == (False, True)
    body.finish()
    assert not body.unread

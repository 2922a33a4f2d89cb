"""Tests for the wait of a writer until its client has read."""

from __future__ import annotations

import asyncio

import pytest

from apiserver_stub.transport import backpressure
from apiserver_stub.transport.backpressure import Backpressure


async def waiting(flow: Backpressure, *, may_stall: bool = True) -> asyncio.Task[None]:
    task = asyncio.ensure_future(flow.wait(may_stall=may_stall))
    await asyncio.sleep(0)
    return task


async def test_writer_waits_only_while_paused() -> None:
    flow = Backpressure()
    flow.resume()
    await flow.wait(may_stall=False)
    flow.pause()
    writer = await waiting(flow)
    assert not writer.done()

    flow.resume()
    flow.resume()
    await writer


async def test_writer_that_is_paused_again_before_it_runs_still_waits() -> None:
    flow = Backpressure()
    flow.pause()
    writer = await waiting(flow)
    flow.resume()
    flow.pause()
    for _ in range(3):
        await asyncio.sleep(0)
    assert not writer.done()

    flow.resume()
    await writer


async def test_wait_fails_when_the_client_disconnects() -> None:
    flow = Backpressure()
    flow.lose()
    assert flow.paused
    writer = await waiting(flow)

    flow.lose()
    flow.lose()
    flow.resume()

    with pytest.raises(ConnectionResetError):
        await writer


@pytest.mark.parametrize("may_stall", [True, False])
async def test_client_that_reads_nothing_is_disconnected_unless_it_may_stall(
    may_stall: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(backpressure, "STALLED_SECONDS", 0)
    flow = Backpressure()
    flow.pause()
    writer = await waiting(flow, may_stall=may_stall)
    for _ in range(3):
        await asyncio.sleep(0)
    assert writer.done() is not may_stall

    flow.resume()
    if may_stall:
        await writer
    else:
        with pytest.raises(TimeoutError):
            await writer

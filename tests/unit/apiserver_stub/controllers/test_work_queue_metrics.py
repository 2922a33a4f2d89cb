"""Tests for the metrics of work queues."""

from __future__ import annotations

import asyncio

from apiserver_stub.controllers.work_queue import WorkQueue
from apiserver_stub.controllers.work_queue_metrics import show_work_queues
from apiserver_stub.telemetry.exposition import Choice, Page
from nodeagent.testing import FakeClock

NAME = "measured"


def figures() -> dict[str, float]:
    """Return the values of the queue by metric, without buckets."""
    page = Page(Choice())
    show_work_queues(page)
    lines = [line for line in page.text()[0].decode().splitlines() if f'name="{NAME}"}}' in line]
    return {line.partition("{")[0].removeprefix("workqueue_"): float(line.rpartition(" ")[2]) for line in lines}


async def test_adds_retries_and_durations(clock: FakeClock) -> None:
    queue, release = WorkQueue[str](NAME, clock), asyncio.Event()

    async def process(key: str) -> None:
        if key == "slow":
            await release.wait()
        elif key == "bad":
            raise ValueError(key)

    for key in ("slow", "good", "bad", "good"):
        queue.add(key)
    task = asyncio.ensure_future(queue.run(process))
    await clock.advance(3)
    waiting = figures()
    release.set()
    await clock.settle()
    done = figures()
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)

    assert waiting["adds_total"] == 3
    assert waiting["depth"] == 2
    assert waiting["unfinished_work_seconds"] == waiting["longest_running_processor_seconds"] == 3
    assert (done["depth"], done["retries_total"], done["unfinished_work_seconds"]) == (0, 1, 0)
    assert (done["work_duration_seconds_count"], done["work_duration_seconds_sum"]) == (3, 3)
    assert (done["queue_duration_seconds_count"], done["queue_duration_seconds_sum"]) == (3, 6)

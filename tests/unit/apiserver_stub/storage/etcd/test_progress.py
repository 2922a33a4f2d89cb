"""Tests for waiting until a revision has been observed."""

from __future__ import annotations

import asyncio

from apiserver_stub.storage.etcd.progress import Progress


async def test_waiters_resume_in_the_order_of_revisions() -> None:
    progress = Progress()
    waits = {revision: asyncio.ensure_future(progress.wait(revision, 60)) for revision in (7, 5, 9)}
    await asyncio.sleep(0)

    progress.reached(7)
    await asyncio.sleep(0.01)

    assert {revision for revision, wait in waits.items() if wait.done()} == {5, 7}
    progress.reached(6)  # outdated progress
    assert progress.revision == 7
    progress.reached(20)
    assert await waits[9]
    assert await progress.wait(20, 0)


async def test_waiting_times_out() -> None:
    progress = Progress()

    assert not await progress.wait(1, 0.01)
    progress.reached(2)  # no waiters are left
    assert await progress.wait(1, 0.01)

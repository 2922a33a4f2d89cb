"""Rounds of a soak test: load, a full disk, and a quiet time in which the node must have released everything."""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections.abc import AsyncIterator

from benchmarks.host import facts
from tests.soak.client import Client
from tests.soak.clients import Clients
from tests.soak.growth import evaluate
from tests.soak.load import Load
from tests.soak.node import SoakNode
from tests.soak.report import Result
from tests.soak.samples import Sampler

ROUND_SECONDS = 300.0
MIN_ROUNDS = 6
QUIET_SECONDS = 10.0
"""Time until connections and processes of the last clients have ended."""
DISK_ROUNDS = 2
"""The disk is filled in each second round."""


async def soak(node: SoakNode, seconds: float, *, seed: int, pause_seconds: float) -> Result:
    """Run rounds for about this time.

    :param pause_seconds: mean pause between the starts of pods; clients start twice as often.
    """
    loop = asyncio.get_running_loop()
    async with Client(node) as client:
        load, sampler = Load(node, client, seed), Sampler(node, client)
        clients = Clients(client, load, seed)
        await load.prepare()
        async with _running(sampler):
            end = loop.time() + seconds
            length, number = min(ROUND_SECONDS, seconds / MIN_ROUNDS), 0
            while end - loop.time() > length / 2 and _alive(node, load):
                number += 1
                if number % DISK_ROUNDS == 0:
                    await load.fill_disk()
                until = min(loop.time() + length - QUIET_SECONDS, end)
                async with asyncio.TaskGroup() as group:
                    group.create_task(load.run(until, pause_seconds))
                    group.create_task(clients.run(until, pause_seconds / 2))
                await asyncio.sleep(QUIET_SECONDS)
                print(_line(number, await sampler.sample(quiet=True), load), file=sys.stderr, flush=True)
    actions = {**load.actions, **{f"client: {name}": count for name, count in clients.actions.items()}}
    actions |= {f"client ended with {name}": count for name, count in clients.errors.items()}
    run = {
        "length": f"{sampler.times[-1] / 3600:.2f} h",
        "seed": str(seed),
        "pods started per s": f"{1 / pause_seconds:g}",
    }
    growth = evaluate(sampler.times, sampler.series, sampler.quiet)
    return Result(run | facts(), sampler.times, sampler.series, sampler.quiet, growth, actions, load.violations)


@contextlib.asynccontextmanager
async def _running(sampler: Sampler) -> AsyncIterator[None]:
    task = asyncio.create_task(sampler.run())
    try:
        yield
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


def _alive(node: SoakNode, load: Load) -> bool:
    for program in (node.agent, node.api):
        if not program.alive():
            load.violate(f"{program.name} has exited:\n{program.tail()}")
            return False
    return True


def _line(number: int, values: dict[str, float | None], load: Load) -> str:
    figures = ", ".join(f"{name} {value:.1f}" for name, value in values.items() if value is not None)
    return f"round {number}: {sum(load.actions.values())} actions, {len(load.violations)} violations; {figures}"

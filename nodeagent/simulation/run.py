"""A run of a simulation: executes steps on a node until its end or the first violation."""

from __future__ import annotations

import asyncio
import gc
from collections import Counter
from collections.abc import Mapping, Sequence
from time import perf_counter

from nodeagent.base.simulation.directory import private_directory
from nodeagent.base.simulation.isolation import isolated
from nodeagent.base.simulation.loop import BusyLoop, Deadlock, SimulatedLoop
from nodeagent.base.simulation.memory import MemoryGrowth
from nodeagent.base.simulation.steps import CALM_SECONDS, ROUND_SECONDS, Outcome, Step
from nodeagent.simulation.actions import Actions
from nodeagent.simulation.convergence import Convergence
from nodeagent.simulation.invariants import Invariants
from nodeagent.simulation.node import Node
from nodeagent.simulation.steps import PRESSURES

_RETAINED_PODS = 50
_COMPARING_SECONDS = 60.0


def simulate(seed: object, steps: Sequence[Step], hours: int, plugins: Mapping[str, object] | None = None) -> Outcome:
    """Execute *steps* on a new node and return the outcome; not within a running event loop.

    :param plugins: plugins under test by name.
    """
    started = perf_counter()
    loop = SimulatedLoop(seed)
    asyncio.set_event_loop(loop)
    try:
        with private_directory(seed) as directory:
            shuts_down = any(step.kind == "shut_down" for step in steps)
            has_pressure = any(step.kind in PRESSURES for step in steps)
            node = Node(seed, loop, directory, plugins or {}, shuts_down=shuts_down, has_pressure=has_pressure)
            invariants = Invariants(node)
            convergence, actions = Convergence(node), Actions(seed, node, invariants)
            with isolated(seed, loop, node.clock, node.replacements()), node.disk.mounted():
                gc.collect()
                gc.freeze()  # Each crash collects garbage.
                loop.on_unhandled = invariants.violate
                try:
                    loop.run_until_complete(_run(node, actions, invariants, convergence, steps, hours))
                except (BusyLoop, Deadlock) as error:
                    invariants.violate(str(error))
                node.crash()
                loop.drop(0)
    finally:
        gc.unfreeze()
        asyncio.set_event_loop(None)
        loop.close()
    return Outcome(
        violation=invariants.violation,
        at=loop.time(),
        digest=node.trace.digest(),
        trace=list(node.trace.recent),
        steps=Counter(actions.executed),
        events=Counter(node.trace.counts),
        checked=invariants.checked + convergence.checked,
        callbacks=loop.steps,
        seconds=perf_counter() - started,
    )


async def _run(
    node: Node,
    actions: Actions,
    invariants: Invariants,
    convergence: Convergence,
    steps: Sequence[Step],
    hours: int,
) -> None:
    node.start()
    memory = MemoryGrowth()
    waiting = list(reversed(steps))
    for number in range(1, hours + 1):
        end = number * ROUND_SECONDS
        while waiting and waiting[-1].at < end:
            step = waiting.pop()
            if not await _sleep_until(node, invariants, step.at):
                return
            actions.execute(step)
        calm_at = end - CALM_SECONDS
        if not await _sleep_until(node, invariants, calm_at):
            return
        actions.calm()
        await asyncio.sleep(60)
        if not node.process:
            node.start()
        if not await _sleep_until(node, invariants, end - _COMPARING_SECONDS):
            return
        while differences := convergence.differences():  # Containers may exit just now.
            for difference in differences if node.loop.time() >= end else ():
                invariants.violate(difference)
            if invariants.violation or not await _sleep_until(node, invariants, node.loop.time() + 5):
                return
        if not await _sleep_until(node, invariants, end):
            return
        invariants.verify_evicted()
        invariants.forget(_RETAINED_PODS)
        node.forget()
        memory.record()
        if invariants.violation:
            return
    if problem := memory.problem():
        invariants.violate(problem)


async def _sleep_until(node: Node, invariants: Invariants, due: float) -> bool:
    """Wait until *due*; return false if there is a violation."""
    while not invariants.violation and node.loop.time() < due:
        await asyncio.sleep(min(5.0, due - node.loop.time()))
        invariants.verify_mounts()
        invariants.verify_limits()
        invariants.verify_pressure()
    return not invariants.violation

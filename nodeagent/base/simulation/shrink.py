"""Reduction of a failing run to few steps: the minimal history."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from time import perf_counter

from nodeagent.base.simulation.steps import ROUND_SECONDS, Outcome, Step

Run = Callable[[Sequence[Step], int], Outcome]
_NAMES = re.compile(r"\d+|\[.*?\]|[0-9a-f]{32}")


def shrink(steps: Sequence[Step], outcome: Outcome, run: Run, seconds: float) -> tuple[list[Step], Outcome]:
    """Return fewer steps that fail in the same way, and the outcome with them.

    Removes ever smaller groups of steps as long as the run still fails.

    :param run: executes steps for a number of hours.
    :param seconds: limit of real time.
    """
    deadline = perf_counter() + seconds
    kept, kind = [step for step in steps if step.at <= outcome.at], _kind(outcome.violation)

    def fails(candidate: Sequence[Step], hours: int) -> Outcome | None:
        found = run(candidate, hours)
        return found if _kind(found.violation) == kind else None

    kept, outcome = _last_round(kept, outcome, fails)
    hours = int(outcome.at // ROUND_SECONDS) + 1
    size = max(1, len(kept) // 2)
    while perf_counter() < deadline:
        start, removed = 0, False
        while start < len(kept) and perf_counter() < deadline:
            candidate = [*kept[:start], *kept[start + size :]]
            if (found := fails(candidate, hours)) is not None:
                kept, outcome, removed = candidate, found, True
            else:
                start += size
        if size == 1 and not removed:
            break
        size = max(1, size // 2)
    return kept, outcome


def _last_round(
    steps: list[Step], outcome: Outcome, fails: Callable[[Sequence[Step], int], Outcome | None]
) -> tuple[list[Step], Outcome]:
    """Return only the steps of the last round, moved to the start, if they fail on a new node."""
    begin = (outcome.at - 0.001) // ROUND_SECONDS * ROUND_SECONDS
    if begin <= 0:
        return steps, outcome
    last = [Step(round(step.at - begin, 3), step.kind, step.arguments) for step in steps if step.at >= begin]
    found = fails(last, 1)
    return (last, found) if found is not None else (steps, outcome)


def _kind(violation: str) -> str:
    """Return *violation* without the names of objects and numbers."""
    return _NAMES.sub("", violation)

"""Tests for minimal histories: only steps that are necessary for the same violation remain."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from nodeagent.base.simulation.shrink import shrink
from nodeagent.base.simulation.steps import Outcome, Step


def outcome(violation: str, at: float = 1800.0) -> Outcome:
    return Outcome(
        violation=violation, at=at, digest="", trace=[], steps={}, events={}, checked=0, callbacks=0, seconds=0.0
    )


class Simulation:
    """Fails if the steps contain all the necessary kinds; another violation results from the kind ``other``."""

    def __init__(self, *necessary: str, at: float = 1800.0) -> None:
        self.necessary, self.at = set(necessary), at
        self.hours: list[int] = []

    def run(self, steps: Sequence[Step], hours: int) -> Outcome:
        self.hours.append(hours)
        kinds = {step.kind for step in steps}
        if self.necessary <= kinds:
            return outcome(f"pod-{len(steps)} is lost", self.at)
        return outcome("volume is lost" if "other" in kinds else "", self.at)


def steps_of(*kinds: str, interval: float = 1.0) -> list[Step]:
    return [Step(index * interval, kind, {}) for index, kind in enumerate(kinds)]


@pytest.mark.parametrize("necessary", [{"a"}, {"a", "d"}, {"a", "b", "c", "d"}])
def test_only_necessary_steps_remain(necessary: set[str]) -> None:
    simulation = Simulation(*necessary)

    kept, minimal = shrink(steps_of("a", "other", "b", "c", "other", "d"), outcome("pod-9 is lost"), simulation.run, 60)

    assert {step.kind for step in kept} == necessary
    assert minimal.violation == f"pod-{len(necessary)} is lost"
    assert set(simulation.hours) == {1}


def test_steps_after_the_violation_are_removed() -> None:
    kept, _ = shrink(steps_of("a", "b", interval=1000.0), outcome("", at=999.9), lambda *_: outcome("x"), 0)

    assert [step.kind for step in kept] == ["a"]


def test_step_at_the_time_of_the_violation_remains() -> None:
    kept, _ = shrink(steps_of("a", "b", interval=1000.0), outcome("", at=1000.0), lambda *_: outcome("x"), 0)

    assert [step.kind for step in kept] == ["a", "b"]


def test_search_ends_after_the_time_limit() -> None:
    simulation = Simulation("a")

    kept, _ = shrink(steps_of("a", "b", "c"), outcome("pod-1 is lost"), simulation.run, 0)

    assert len(kept) == 3
    assert simulation.hours == []


@pytest.mark.parametrize(("necessary", "at"), [(("c", "d"), [100.0, 3100.0]), (("a", "d"), [500.0, 6700.0])])
def test_last_round_is_moved_to_the_start_if_it_fails_alone(necessary: tuple[str, ...], at: list[float]) -> None:
    steps = [Step(time, kind, {}) for time, kind in [(500.0, "a"), (2000.0, "b"), (3700.0, "c"), (6700.0, "d")]]
    simulation = Simulation(*necessary, at=7000.0)

    kept, _ = shrink(steps, outcome("pod-1 is lost", at=7000.0), simulation.run, 60)

    assert [step.at for step in kept] == at

"""Tests for a run of a simulation with a recorded node: times of steps, and the end at the first violation."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace

import pytest

from nodeagent.base.simulation.loop import SimulatedLoop
from nodeagent.base.simulation.steps import CALM_SECONDS, ROUND_SECONDS, Step
from nodeagent.simulation import run as module
from nodeagent.simulation.steps import PRESSURES

CALM = ROUND_SECONDS - CALM_SECONDS


class Run:
    """Components of a run, and the calls with their times.

    :ivar violates: name of the call that records a violation.
    :ivar converges_at: time since which the node has converged.
    """

    def __init__(self, loop):
        self.loop, self.calls, self.checks = loop, [], set()
        self.violates, self.converges_at, self.growth = "", 0.0, ""
        self.process, self.violation = 1, ""

    def _call(self, name):
        self.calls.append((name, self.loop.time()))
        if name == self.violates:
            self.violate(f"{name} failed")

    def violate(self, text):
        self.violation = self.violation or text

    def __getattr__(self, name):
        if name.startswith("verify_"):
            return lambda: self.checks.add(name)
        return lambda *_: self._call(name)

    def start(self):
        self.process = 1
        self._call("start")

    def execute(self, step):
        if step.kind == "crash":
            self.process = 0
        self._call(step.kind)

    def differences(self):
        return ["pod a is missing", "pod b is missing"] if self.loop.time() < self.converges_at else []

    def problem(self):
        return self.growth

    def run(self, *steps, hours=1):
        steps = [Step(at, kind, {}) for kind, at in steps]
        self.loop.run_until_complete(module._run(self, self, self, self, steps, hours))
        return self


@pytest.fixture
def run(monkeypatch):
    loop = SimulatedLoop(1)
    asyncio.set_event_loop(loop)
    run = Run(loop)
    growth = SimpleNamespace(record=lambda: run._call("record"), problem=lambda: run.growth)
    monkeypatch.setattr(module, "MemoryGrowth", lambda: growth)
    yield run
    asyncio.set_event_loop(None)
    loop.close()


def rounds(count, *steps):
    """Return the calls of a run without violations, in order of time."""
    calls = [("start", 0.0), *steps]
    for number in range(count):
        end = (number + 1) * ROUND_SECONDS
        calls += [("calm", end - CALM_SECONDS), ("forget", end), ("forget", end), ("record", end)]
    return sorted(calls, key=lambda call: call[1])


def test_steps_are_executed_at_their_times_in_their_rounds(run):
    steps = [("add", 1.5), ("add", 7.0), ("remove", CALM - 1), ("add", ROUND_SECONDS + 3)]

    assert run.run(*steps, hours=2).calls == rounds(2, *steps)
    assert run.violation == "" and run.loop.time() == 2 * ROUND_SECONDS
    assert run.checks == {"verify_mounts", "verify_limits", "verify_pressure", "verify_evicted"}


def test_step_at_the_end_of_the_last_round_is_not_executed(run):
    assert run.run(("add", ROUND_SECONDS)).calls == rounds(1)


def test_crashed_agent_is_started_a_minute_after_the_last_step(run):
    assert run.run(("crash", 10.0)).calls == rounds(1, ("crash", 10.0), ("start", CALM + 60))


@pytest.mark.parametrize(
    ("call", "at", "ends"),
    [("add", 100.0, 100.0), ("late", CALM - 2, CALM - 2), ("calm", 0.0, CALM + 60), ("record", 0.0, ROUND_SECONDS)],
)
def test_run_ends_at_the_first_violation(run, call, at, ends):
    run.violates = call
    steps = [(call, at), ("never", at + 1)] if at else []

    run.run(*steps, hours=2)

    assert (run.violation, run.loop.time()) == (f"{call} failed", ends)
    assert run.calls[-1][0] == call


@pytest.mark.parametrize(("converges_at", "violation"), [(ROUND_SECONDS, ""), (ROUND_SECONDS + 1, "pod a is missing")])
def test_node_must_have_converged_at_the_end_of_a_round(run, converges_at, violation):
    run.converges_at = converges_at

    run.run()

    assert (run.violation, run.loop.time()) == (violation, ROUND_SECONDS)


@pytest.mark.parametrize("growth", ["", "the agent uses more memory each hour"])
def test_growth_of_memory_is_a_violation_at_the_end(run, growth):
    run.growth = growth

    assert run.run(hours=2).violation == growth


@pytest.mark.parametrize(
    ("kind", "options"),
    [
        ("create_pod", {"shuts_down": False, "has_pressure": False}),
        ("shut_down", {"shuts_down": True, "has_pressure": False}),
        (next(iter(PRESSURES)), {"shuts_down": False, "has_pressure": True}),
    ],
)
@pytest.mark.parametrize("plugins", [None, {"mine": object()}])
def test_node_has_the_components_that_the_steps_need(monkeypatch, kind, options, plugins):
    created = []

    def node(_seed, _loop, _directory, found, **given):
        created.append((found, given))
        raise LookupError

    monkeypatch.setattr(module, "Node", node)
    with pytest.raises(LookupError):
        module.simulate(1, [Step(1.0, kind, {})], 1, plugins)

    assert created == [(plugins or {}, options)]

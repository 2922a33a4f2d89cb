"""Tests for a run of the server's simulation: the order of steps and checks, and the end at the first violation."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from apiserver_stub.nodes.agents import DEFAULT_PORT
from apiserver_stub.simulation import run as module
from apiserver_stub.simulation.client import Response
from apiserver_stub.simulation.collections import CONFIG_MAPS, NAMESPACES
from apiserver_stub.simulation.network import ServerLoop
from nodeagent.base.simulation.steps import CALM_SECONDS, ROUND_SECONDS, Step
from nodeagent.base.structs import Struct
from tests.unit.apiserver_stub.simulation.stored import Stored

TERMINATING = {"deletionTimestamp": "2026-01-01T00:00:00Z"}
JUMP = {"seconds": 60}


class Problem(Struct, frozen=True):
    """Growth of memory."""

    text: str

    def record(self) -> None:
        pass

    def problem(self) -> str:
        return self.text


async def do_nothing() -> None:
    pass


async def bind(*_request: Any) -> Response:
    return Response(201, {}, b"{}")


class Harness:
    """A run without a server, whose nodes and watches do nothing."""

    def __init__(self, loop: ServerLoop, directory: Path) -> None:
        self.loop = loop
        self.run = module._Run(1, loop, directory)
        self.run.cluster.start = lambda: None  # type: ignore[method-assign]
        self.run.admin.request = bind  # type: ignore[method-assign]
        for each in (*self.run.nodes, *self.run.reflectors):
            each.run = do_nothing  # type: ignore[method-assign]
        self.stored = Stored()
        self.stored.invariants.history = self.run.invariants.history

    @property
    def violation(self) -> str:
        return self.run.violations.first

    def execute(self, *steps: Step, hours: int = 1) -> float:
        """Execute steps and return the time at the end."""
        self.complete(self.run.execute(steps, hours))
        return self.loop.time()

    def complete(self, function: Coroutine[Any, Any, Any]) -> Any:
        return self.loop.run_until_complete(function)

    def at(self, seconds: float, function: Any) -> None:
        self.loop.call_later(seconds, function)


@pytest.fixture
def harness(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Harness]:
    loop = ServerLoop(1)
    asyncio.set_event_loop(loop)
    monkeypatch.setattr(module, "MemoryGrowth", lambda: Problem(""))
    yield Harness(loop, tmp_path)
    tasks = asyncio.all_tasks(loop)
    for task in tasks:
        task.cancel()
    loop.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))
    asyncio.set_event_loop(None)
    loop.close()


def test_steps_are_executed_at_their_times_in_all_rounds(harness: Harness) -> None:
    clock, offsets = harness.run.cluster.clock, list[float]()
    for seconds in (99.0, 101.0, ROUND_SECONDS + 101.0):
        harness.at(seconds, lambda: offsets.append(clock.offset_seconds))

    end = harness.execute(Step(100.0, "jump_clock", JUMP), Step(ROUND_SECONDS + 100.0, "jump_clock", JUMP), hours=2)

    assert (end, offsets, harness.violation) == (2 * ROUND_SECONDS, [0, 60, 120], "")


def test_step_at_the_end_of_a_round_belongs_to_the_next(harness: Harness) -> None:
    harness.execute(Step(ROUND_SECONDS, "jump_clock", JUMP), hours=1)

    assert not harness.run.actions.executed


@pytest.mark.parametrize(
    "seconds", [50.0, ROUND_SECONDS - CALM_SECONDS - 50, ROUND_SECONDS - 500.0, ROUND_SECONDS - 50.0]
)
def test_run_ends_at_the_first_violation(harness: Harness, seconds: float) -> None:
    harness.at(seconds, lambda: harness.run.violations.report("broken"))

    end = harness.execute(Step(100.0, "jump_clock", JUMP), hours=2)

    assert seconds <= end <= seconds + 5.0
    assert sum(harness.run.actions.executed.values()) == (seconds > 100)
    assert harness.violation == "broken"


def test_all_faults_end_before_the_state_is_compared(harness: Harness) -> None:
    network = harness.run.cluster.network
    network.loss = 0.5
    losses: list[float] = []
    for seconds in (ROUND_SECONDS - CALM_SECONDS - 1, ROUND_SECONDS - CALM_SECONDS + 1):
        harness.at(seconds, lambda: losses.append(network.loss))

    harness.execute()

    assert losses == [0.5, 0.0]


@pytest.mark.parametrize("when", [ROUND_SECONDS - 130.0, ROUND_SECONDS - 30.0, None])
def test_controllers_must_converge_until_the_end_of_a_round(harness: Harness, when: float | None) -> None:
    harness.stored.put(NAMESPACES, "ns", TERMINATING)
    if when is not None:
        harness.at(when, lambda: harness.stored.delete(NAMESPACES, "ns"))

    end = harness.execute()

    assert harness.violation == ("" if when is not None else "not converged: namespace ns is still being deleted")
    assert end == ROUND_SECONDS


def test_autoscaler_must_converge(harness: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(harness.run.autoscaling, "deviation", lambda: "too few replicas")

    harness.execute()

    assert harness.violation == "not converged: too few replicas"


def test_violation_while_waiting_for_convergence_is_the_only_one(harness: Harness) -> None:
    harness.stored.put(NAMESPACES, "ns", TERMINATING)
    harness.at(ROUND_SECONDS - 50.0, lambda: harness.run.violations.report("broken"))
    verified = harness.run.violations.checked

    assert harness.execute() < ROUND_SECONDS - 40.0

    assert harness.violation == "broken"
    assert harness.run.violations.checked < verified + 30


def test_watches_must_have_delivered_the_state(harness: Harness) -> None:
    harness.stored.put(NAMESPACES, "default")
    harness.stored.put(CONFIG_MAPS, "default/a")

    harness.execute()

    assert harness.violation.startswith("watch of /api/v1/configmaps has not delivered")


@pytest.mark.parametrize(
    ("name", "limit", "violation"),
    [
        ("_MAX_TASKS", 0, ""),
        ("_MAX_TASKS", -1, "a server has 0 tasks"),
        ("_MAX_FILES", 7, ""),
        ("_MAX_FILES", 6, "the servers have 7 open files"),
    ],
)
def test_tasks_and_files_are_limited(
    harness: Harness, monkeypatch: pytest.MonkeyPatch, name: str, limit: int, violation: str
) -> None:
    monkeypatch.setattr(module, "_open_files", lambda: 7)
    harness.run.loop.tasks_of = lambda process: []  # type: ignore[method-assign,assignment]
    monkeypatch.setattr(module, name, limit)

    harness.execute()

    assert harness.violation == violation


def test_growth_of_memory_is_a_violation(harness: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MemoryGrowth", lambda: Problem("memory grows"))

    harness.execute()

    assert harness.violation == "memory grows"


def test_failure_of_the_server_is_a_violation(harness: Harness) -> None:
    harness.at(50.0, lambda: setattr(harness.run.cluster.servers[0], "failure", KeyError("x")))

    assert harness.execute() <= 60.0
    assert harness.violation == "server failed: KeyError('x')"


@pytest.mark.parametrize("part", ["node", "step"])
def test_errors_of_the_simulation_are_raised(harness: Harness, monkeypatch: pytest.MonkeyPatch, part: str) -> None:
    async def fail(*_arguments: Any, **_options: Any) -> None:
        await asyncio.sleep(10.0)
        raise KeyError("x")

    steps = []
    if part == "node":
        monkeypatch.setattr(harness.run.nodes[0], "run", fail)
    else:
        monkeypatch.setattr(harness.run.actions, "errors", lambda: [KeyError("x")])
        steps = [Step(5.0, "jump_clock", JUMP)]

    with pytest.raises(KeyError):
        harness.execute(*steps)


@pytest.mark.parametrize("finalizer", ["simulated.test/hold", "other"])
def test_finalizers_of_the_simulation_are_removed_before_the_end(
    harness: Harness, monkeypatch: pytest.MonkeyPatch, finalizer: str
) -> None:
    released: list[tuple[str, str, float]] = []

    async def remove(namespace: str, name: str) -> None:
        released.append((namespace, name, harness.loop.time()))
        if len(released) == 3:
            harness.stored.put(CONFIG_MAPS, "default/a")

    monkeypatch.setattr(harness.run.requests, "remove_finalizer", remove)
    harness.stored.put(NAMESPACES, "default")
    harness.stored.put(CONFIG_MAPS, "default/a", {"finalizers": [finalizer]})
    harness.stored.put(CONFIG_MAPS, "default/b")
    started = ROUND_SECONDS - CALM_SECONDS

    harness.execute()

    expected = [("default", "a", started + 5.0 * number) for number in range(3)]
    assert released == (expected if finalizer == "simulated.test/hold" else [])


@pytest.mark.parametrize(("codes", "requests"), [((201,), 1), ((409,), 1), ((503, 403, 201), 3)])
def test_user_is_bound_until_it_succeeds(
    harness: Harness, monkeypatch: pytest.MonkeyPatch, codes: tuple[int, ...], requests: int
) -> None:
    sent: list[str] = []

    async def request(method: str, path: str, _body: Any = None, *_type: Any) -> Response:
        if "clusterrolebindings" in path:
            sent.append(method)
            return Response(codes[min(len(sent), len(codes)) - 1], {}, b"{}")
        return Response(503, {}, b"{}")

    monkeypatch.setattr(harness.run.admin, "request", request)

    harness.execute()

    assert sent == ["POST"] * requests


def test_services_are_found_by_port(harness: Harness) -> None:
    find: Any = harness.run.cluster._dialer._find

    assert find("192.0.2.100", DEFAULT_PORT) is harness.run.autoscaling
    assert find("validating-0.simulated.test", 443) is not harness.run.autoscaling


def test_past_is_forgotten_after_each_round(harness: Harness) -> None:
    harness.stored.put(NAMESPACES, "default")
    harness.run.reviewed.begin("n1", dry_run=False)
    history = harness.run.invariants.history
    assert len(list(history.changes(NAMESPACES, 0))) == 1

    harness.execute()

    assert list(history.changes(NAMESPACES, 0)) == []
    assert history.state_at(NAMESPACES, history.revision).keys() == {"default"}
    assert harness.run.reviewed._writes == {}


def test_errors_are_those_of_tasks_that_ended() -> None:
    def task(*, done: bool, error: Exception | None = None) -> Any:
        def exception() -> Exception | None:
            assert done
            return error

        return SimpleNamespace(done=lambda: done, exception=exception)

    error = KeyError("x")

    assert module._errors([task(done=False), task(done=True), task(done=True, error=error)]) == [error]

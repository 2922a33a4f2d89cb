"""Tests that recorded requests get the responses of kube-apiserver, without the parts of the server that are I/O."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from functools import lru_cache
from pathlib import Path

import pytest

from tests.differential import scenarios
from tests.differential.cases import JOBS, TABLES, UNIT_RECORDINGS, Recording
from tests.differential.compare import accepted, compare, covering
from tests.differential.replay import NEWEST_OPTIONS, OPTIONS
from tests.differential.runner import Runner, set_up
from tests.differential.scenarios import Scenario
from tests.unit.apiserver_stub.in_process import InProcessServer

pytestmark = pytest.mark.covers(
    "apiserver_stub.apimachinery",
    "apiserver_stub.defaulting",
    "apiserver_stub.kinds",
    "apiserver_stub.schema",
    "apiserver_stub.validation",
)
RELEASES = {"1.29": OPTIONS, "1.36": NEWEST_OPTIONS}
SCENARIOS = {"1.29": TABLES, "1.36": JOBS}
_PATHS = [path for release in RELEASES for path in sorted((UNIT_RECORDINGS / release).glob("*.jsonl"))]


@pytest.fixture(scope="module")
def loop() -> Iterator[asyncio.Runner]:
    with asyncio.Runner() as runner:
        yield runner


@pytest.fixture(scope="module")
def servers(loop: asyncio.Runner) -> Callable[[str], InProcessServer]:
    """Return the server of a release, with the objects that exist before the first request."""

    async def started(release: str) -> InProcessServer:
        found = await InProcessServer(*RELEASES[release]).start()
        await set_up(found)
        return found

    return lru_cache(lambda release: loop.run(started(release)))


@pytest.mark.parametrize("path", _PATHS, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_recorded_request_gets_upstream_response(
    path: Path, servers: Callable[[str], InProcessServer], loop: asyncio.Runner
) -> None:
    recording = Recording.read(path)
    run = Runner(servers(path.parent.name), recording.catalogued, settles=False)

    outcomes = loop.run(run.run([case for case, _ in recording.cases]))

    found = (
        compare(recording.resource, case, expected.outcome, ours)
        for (case, expected), ours in zip(recording.cases, outcomes, strict=True)
    )
    assert [f"{item.case.to_json()}: {', '.join(item.found)}" for item in found if item is not None] == []


def is_of_other_parts(scenario: Scenario) -> bool:
    """Return whether *scenario* is about conditions that controllers set, tokens, or paths without resources."""
    return scenario.name in ("tables-apiservices-3", "tables-errors") or any(
        "token" in step.path for step in scenario.steps
    )


@pytest.mark.parametrize(("release", "name"), SCENARIOS.items())
def test_recorded_scenario_gets_upstream_responses(
    release: str, name: str, servers: Callable[[str], InProcessServer], loop: asyncio.Runner
) -> None:
    recorded = [scenario for scenario in scenarios.read(name) if not is_of_other_parts(scenario)]

    outcomes = loop.run(scenarios.run(servers(release), recorded))

    steps = (
        compare(f"{name}/{scenario.name}", step, expected, ours)
        for scenario, found in zip(recorded, outcomes, strict=True)
        for step, expected, ours in zip(scenario.steps, scenario.outcomes, found, strict=True)
        if expected.code not in (0, 500) and ours.code
    )
    rules = accepted()
    differences = [item for item in steps if item is not None and not covering(rules, item)]
    assert [f"{item.resource} {item.case.to_json()}: {', '.join(item.found)}" for item in differences] == []

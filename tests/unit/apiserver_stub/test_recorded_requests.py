"""Tests that recorded requests get the responses of kube-apiserver, without the parts of the server that are I/O."""

from __future__ import annotations

import asyncio
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


@lru_cache
def server(release: str) -> InProcessServer:
    """Return a server with the objects that exist before the first request."""

    async def started() -> InProcessServer:
        found = await InProcessServer(*RELEASES[release]).start()
        await set_up(found)
        return found

    return asyncio.run(started())


@pytest.mark.parametrize("path", _PATHS, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_recorded_request_gets_upstream_response(path: Path) -> None:
    recording = Recording.read(path)
    run = Runner(server(path.parent.name), recording.catalogued, settles=False)

    outcomes = asyncio.run(run.run([case for case, _ in recording.cases]))

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
def test_recorded_scenario_gets_upstream_responses(release: str, name: str) -> None:
    recorded = [scenario for scenario in scenarios.read(name) if not is_of_other_parts(scenario)]

    outcomes = asyncio.run(scenarios.run(server(release), recorded))

    steps = (
        compare(f"{name}/{scenario.name}", step, expected, ours)
        for scenario, found in zip(recorded, outcomes, strict=True)
        for step, expected, ours in zip(scenario.steps, scenario.outcomes, found, strict=True)
        if expected.code not in (0, 500) and ours.code
    )
    rules = accepted()
    differences = [item for item in steps if item is not None and not covering(rules, item)]
    assert [f"{item.resource} {item.case.to_json()}: {', '.join(item.found)}" for item in differences] == []

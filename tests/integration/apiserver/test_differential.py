"""Tests that recorded requests get the responses of kube-apiserver, of 1.29 and 1.36."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from nodeagent.testing.apiserver import started_apiserver
from tests.differential.cases import NEWEST_RECORDINGS, NEWEST_SCENARIOS, SCENARIOS, TABLES, recordings
from tests.differential.catalog import NEWEST_OBJECTS
from tests.differential.compare import Accepted, accepted
from tests.differential.replay import NEWEST_OPTIONS, OPTIONS, Result, replay, replay_scenarios
from tests.differential.runner import Target

_SHOWN = 10


@pytest.fixture(scope="module")
def target() -> Iterator[Target]:
    with started_apiserver(*OPTIONS) as server:
        yield Target(server.url, str(server.ca_file), server.token)


@pytest.fixture(scope="module")
def used() -> set[Accepted]:
    """Accepted differences that occurred in the tests so far."""
    return set()


@pytest.mark.timeout(900)
@pytest.mark.parametrize("path", recordings(), ids=lambda path: path.stem)
async def test_recorded_requests_get_upstream_responses(target: Target, used: set[Accepted], path: Path) -> None:
    (result,) = await replay(target, [path])

    used.update(result.rules)
    _require_no_differences(result)


@pytest.mark.timeout(900)
@pytest.mark.parametrize("recording", [SCENARIOS, TABLES])
async def test_recorded_scenarios_get_upstream_responses(target: Target, used: set[Accepted], recording: str) -> None:
    result = await replay_scenarios(target, recording)

    used.update(result.rules)
    _require_no_differences(result)


@pytest.mark.timeout(900)
async def test_recorded_requests_get_responses_of_release_1_36(used: set[Accepted]) -> None:
    with started_apiserver(*NEWEST_OPTIONS) as server:
        target = Target(server.url, str(server.ca_file), server.token)
        results = [await replay_scenarios(target, name) for name in NEWEST_SCENARIOS]
        results += await replay(target, recordings(directory=NEWEST_RECORDINGS), NEWEST_OBJECTS)

    for result in results:
        used.update(result.rules)
    for result in results:
        _require_no_differences(result)


def _require_no_differences(result: Result) -> None:
    shown = [f"{item.resource} {item.case.to_json()}: {', '.join(item.found)}" for item in result.unexplained[:_SHOWN]]
    assert not shown, f"{len(result.unexplained)} of {result.count} cases differ:\n" + "\n".join(shown)


def test_every_accepted_difference_still_occurs(used: set[Accepted], request: pytest.FixtureRequest) -> None:
    replayed = sum(
        item.nodeid.startswith(f"{request.node.parent.nodeid}::test_recorded") for item in request.session.items
    )
    if replayed < len(recordings()):
        return  # Only some of the recordings were replayed.

    assert [rule for rule in accepted() if rule not in used] == []

"""Tests for the steps of a simulation."""

from __future__ import annotations

import pytest

from nodeagent.base.simulation.memory import LONG_HOURS
from nodeagent.simulation.steps import FAULTS, PRESSURES, make_steps


def test_only_pods_that_are_always_restarted_may_run_without_an_end():
    created = [step.arguments for step in make_steps(1, 4) if step.kind == "create_pod"]
    endless = {policy: set() for policy in ("Always", "OnFailure", "Never")}
    for pod in created:
        endless[pod["policy"]].add(pod["runs"] == 0)

    assert endless == {"Always": {True, False}, "OnFailure": {False}, "Never": {False}}


@pytest.mark.parametrize(("hours", "restarts"), [(LONG_HOURS - 1, True), (LONG_HOURS, False)])
def test_agent_is_not_restarted_in_long_runs(hours, restarts):
    kinds = {step.kind for step in make_steps(1, hours)}

    assert ("crash_agent" in kinds) == restarts
    assert "create_pod" in kinds


def test_most_rounds_have_faults_and_all_have_changes_of_pods():
    rounds = [{step.kind for step in make_steps(seed, 1)} - PRESSURES.keys() for seed in range(60)]

    assert 0 < sum(not kinds & FAULTS for kinds in rounds) < 20
    assert all("create_pod" in kinds or len(kinds) < 15 for kinds in rounds)
    assert all(kinds - FAULTS for kinds in rounds)

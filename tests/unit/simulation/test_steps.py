"""Tests for the steps of a simulation."""

from __future__ import annotations

from nodeagent.simulation.steps import make_steps


def test_only_pods_that_are_always_restarted_may_run_without_an_end():
    created = [step.arguments for step in make_steps(1, 4) if step.kind == "create_pod"]
    endless = {policy: set() for policy in ("Always", "OnFailure", "Never")}
    for pod in created:
        endless[pod["policy"]].add(pod["runs"] == 0)

    assert endless == {"Always": {True, False}, "OnFailure": {False}, "Never": {False}}

"""Tests for the steps of the server's simulation: they depend on the seed only, and each round ends calmly."""

from __future__ import annotations

import itertools
from collections import Counter

import pytest

from apiserver_stub.simulation.admission import INVALID
from apiserver_stub.simulation.steps import CLUSTER_FAULTS, FAULTS, make_steps
from nodeagent.base.simulation.memory import LONG_HOURS
from nodeagent.base.simulation.steps import CALM_SECONDS, ROUND_SECONDS, Step

HOURS = min(40, LONG_HOURS - 1)


@pytest.fixture(scope="module")
def steps() -> list[Step]:
    return [step for seed in range(4) for step in make_steps(seed, HOURS)]


def test_steps_of_a_round_do_not_depend_on_the_number_of_rounds() -> None:
    assert make_steps(1, 3)[: len(make_steps(1, 2))] == make_steps(1, 2)
    assert make_steps(1, 2) != make_steps(2, 2)


def test_each_round_starts_and_ends_calmly() -> None:
    for step in make_steps(1, HOURS):
        assert 30.0 <= step.at % ROUND_SECONDS < ROUND_SECONDS - CALM_SECONDS + 0.001


def test_steps_are_in_order_and_often_nearly_concurrent() -> None:
    times = [step.at for step in make_steps(1, HOURS)]
    pauses = [after - before for before, after in itertools.pairwise(times)]

    assert times == sorted(times)
    assert 0.3 < sum(pause <= 0.02 for pause in pauses) / len(pauses) < 0.5


def test_all_kinds_of_steps_occur_and_some_rounds_have_no_faults(steps: list[Step]) -> None:
    kinds = Counter(step.kind for step in steps)
    assert kinds.keys() >= FAULTS - CLUSTER_FAULTS
    assert kinds["create_map"] > kinds["delete_map"] > kinds["create_namespace"]

    rounds: list[list[str]] = [[] for _ in range(HOURS)]
    for step in make_steps(1, HOURS):
        rounds[int(step.at // ROUND_SECONDS)].append(step.kind)
    faulty = sum(bool(FAULTS & set(kinds)) for kinds in rounds)
    assert HOURS // 2 < faulty < HOURS


def test_faults_of_an_etcd_cluster_occur_only_with_several_servers(steps: list[Step]) -> None:
    assert not CLUSTER_FAULTS & {step.kind for step in steps}

    assert {step.kind for step in make_steps(1, HOURS, servers=3)} >= CLUSTER_FAULTS


def test_long_simulations_do_not_restart_the_server() -> None:
    restarts = {"stop", "crash", "lose_power", "crash_in_write"}

    assert restarts <= {step.kind for step in make_steps(1, LONG_HOURS - 1)}
    long = {step.kind for step in make_steps(1, LONG_HOURS)}
    assert not restarts & long
    assert {"fill_disk", "jump_clock"} <= long


def test_invalid_or_unreachable_webhooks_do_not_review_deletions(steps: list[Step]) -> None:
    found = [step.arguments for step in steps if step.kind == "apply_webhook"]

    assert not any(each["deletes"] for each in found if each["match"] == INVALID or each["service"])
    assert {each["deletes"] for each in found if each["match"] != INVALID and not each["service"]} == {True, False}


@pytest.mark.parametrize(
    ("kind", "argument", "probability"),
    [
        ("create_map", "finalizer", 0.2),
        ("update_map", "versioned", 0.7),
        ("create_job", "fails", 0.3),
        ("apply_map", "force", 0.5),
        ("create_dependent", "block", 0.5),
    ],
)
def test_arguments_are_chosen_with_their_probability(
    steps: list[Step], kind: str, argument: str, probability: float
) -> None:
    values = [step.arguments[argument] for step in steps if step.kind == kind]

    assert abs(sum(values) / len(values) - probability) < 0.1

"""Tests for decisions about resizes: order and feasibility."""

from datetime import UTC, datetime

import pytest

from nodeagent.agent import _resize_rules
from nodeagent.allocation.decision import (
    PendingResize,
    ResizeRules,
    in_order,
    increases_requests,
    infeasible,
)
from nodeagent.config.features import build_gates
from nodeagent.testing import make_config, make_pod

from .conftest import sized_container, sized_pod

SMALL = {"cpu": "1", "memory": "64Mi"}


def resize(name, before="100m", after="200m", *, since=None, **fields):
    return PendingResize(sized_pod(name, cpu=after, **fields), sized_pod(name, cpu=before), since)


def guaranteed(**resources):
    return make_pod("web", containers=[sized_container(requests=resources, limits=resources)])


def no_swap(pod, container):
    return False


def test_resizes_are_ordered_by_increase_priority_class_and_time():
    early, late = datetime(2026, 1, 1, tzinfo=UTC), datetime(2026, 1, 2, tzinfo=UTC)
    shrinking = resize("shrinking", after="50m")
    important = resize("important", priority=10)
    sure = PendingResize(guaranteed(cpu="2", memory="64Mi"), guaranteed(**SMALL))
    waiting, newer, newest = resize("waiting", since=early), resize("newer", since=late), resize("newest")

    ordered = in_order([newest, newer, sure, waiting, important, shrinking])

    assert ordered == [shrinking, important, sure, waiting, newer, newest]


def test_change_of_requests_is_detected():
    small, large = sized_pod(), sized_pod(memory="65Mi")

    assert increases_requests(small, large) and not increases_requests(large, small)


@pytest.mark.row("gate.InPlacePodVerticalScaling")
@pytest.mark.parametrize("enabled", [True, False])
def test_feature_gate_decides_on_resizes(enabled):
    rules = _resize_rules(make_config(), build_gates({"InPlacePodVerticalScaling": enabled}))

    assert (infeasible(resize("web"), rules, no_swap) is None) is enabled


def test_disabled_gate_makes_a_resize_infeasible():
    found = infeasible(resize("web"), ResizeRules(enabled=False), no_swap)

    assert found is not None
    assert found.message == "InPlacePodVerticalScaling is disabled"


@pytest.mark.parametrize(
    ("rules", "after", "message"),
    [
        ({"static_cpu_policy": True}, {"cpu": "2"}, 'alongside CPU Manager policy "static"'),
        ({"static_memory_policy": True}, {"memory": "1Gi"}, 'alongside Memory Manager policy "Static"'),
        ({"static_cpu_policy": True}, {"memory": "1Gi"}, None),
        ({"static_memory_policy": True}, {"cpu": "2"}, None),
    ],
)
def test_static_policies_make_resizes_of_guaranteed_pods_infeasible(rules, after, message):
    change = PendingResize(guaranteed(**{**SMALL, **after}), guaranteed(**SMALL))

    found = infeasible(change, ResizeRules(**rules), no_swap)

    assert (found and found.message) == (message and f"Resize is infeasible for Guaranteed Pods {message}")


def test_swap_makes_a_change_of_the_memory_request_infeasible():
    change = PendingResize(sized_pod(memory="1Gi"), sized_pod())

    found = infeasible(change, ResizeRules(), lambda pod, container: True)

    assert found is not None
    assert found.message == "In-place resize of containers with swap is not supported."


def test_container_that_restarts_for_memory_may_swap():
    policy = [{"resourceName": "memory", "restartPolicy": "RestartContainer"}]
    pods = [
        make_pod("web", containers=[sized_container(requests={"memory": memory}, resize_policy=policy)])
        for memory in ("1Gi", "64Mi")
    ]

    assert infeasible(PendingResize(*pods), ResizeRules(), lambda pod, container: True) is None

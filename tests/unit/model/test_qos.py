"""Tests for QoS classes and OOM scores."""

from __future__ import annotations

import pytest

from nodeagent.model.pod import PodStatus
from nodeagent.model.qos import QosClass, compute_qos_class, is_critical, is_node_critical, oom_score_adj, qos_class
from nodeagent.testing import make_container, make_pod

GI = 1024**3


def container(name="main", requests=None, limits=None, **fields):
    return make_container(name, resources={"requests": requests or {}, "limits": limits or {}}, **fields)


FULL = {"cpu": "1", "memory": "1Gi"}


@pytest.mark.parametrize(
    ("requests", "limits", "expected"),
    [
        ({}, {}, QosClass.BEST_EFFORT),
        ({"cpu": "0"}, {"memory": 0}, QosClass.BEST_EFFORT),
        ({"example.com/gpu": "1"}, {"example.com/gpu": "1"}, QosClass.BEST_EFFORT),
        (FULL, FULL, QosClass.GUARANTEED),
        ({}, FULL, QosClass.GUARANTEED),
        ({"cpu": "1000m"}, FULL, QosClass.GUARANTEED),
        ({"cpu": "500m"}, FULL, QosClass.BURSTABLE),
        ({"cpu": "1"}, {"cpu": "1"}, QosClass.BURSTABLE),
        ({"memory": "1Mi"}, {}, QosClass.BURSTABLE),
    ],
)
def test_class_of_one_container(requests, limits, expected):
    assert compute_qos_class(make_pod(containers=[container(requests=requests, limits=limits)])) == expected


def test_pod_with_a_container_without_limits_is_burstable():
    pod = make_pod(containers=[container("a", FULL, FULL), container("b")])
    assert compute_qos_class(pod) == QosClass.BURSTABLE


def test_init_containers_affect_the_class():
    pod = make_pod(containers=[container("a", FULL, FULL)], init_containers=[container("i", {"cpu": "1"})])
    assert compute_qos_class(pod) == QosClass.BURSTABLE


def test_class_in_the_status_takes_precedence():
    assert qos_class(make_pod(status=PodStatus(qos_class="Guaranteed"))) == QosClass.GUARANTEED


@pytest.mark.parametrize(
    ("requests", "limits", "score"),
    [
        ({}, {}, 1000),
        (FULL, FULL, -997),
        ({"cpu": "1m"}, {}, 999),
        ({"memory": "1Gi"}, {}, 750),
        ({"memory": "1"}, {}, 999),
        ({"memory": "4Gi"}, {}, 3),
    ],
)
def test_oom_score_of_a_container_on_a_node_of_4_gib(requests, limits, score):
    pod = make_pod(containers=[container(requests=requests, limits=limits)])
    assert oom_score_adj(pod, pod.spec.containers[0], 4 * GI) == score


def test_node_critical_pod_has_the_score_of_guaranteed_pods():
    pod = make_pod(priority=2_000_001_000, priority_class_name="system-node-critical")
    assert is_node_critical(pod)
    assert oom_score_adj(pod, pod.spec.containers[0], GI) == -997


@pytest.mark.parametrize(
    ("annotations", "priority", "critical"),
    [
        ({"kubernetes.io/config.source": "file"}, None, True),
        ({"kubernetes.io/config.mirror": "abc"}, None, True),
        ({"kubernetes.io/config.source": "api"}, None, False),
        ({}, 2_000_000_000, True),
        ({}, 1_999_999_999, False),
    ],
)
def test_critical_pods(annotations, priority, critical):
    assert is_critical(make_pod(annotations=annotations, priority=priority)) is critical


# --- pod-level resources ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("requests", "limits", "expected"),
    [
        (FULL, FULL, QosClass.GUARANTEED),
        ({"cpu": "500m", "memory": "1Gi"}, FULL, QosClass.BURSTABLE),
        ({"memory": "1Gi"}, {"memory": "1Gi"}, QosClass.BURSTABLE),
        ({"hugepages-2Mi": "2Mi"}, {"hugepages-2Mi": "2Mi"}, QosClass.BEST_EFFORT),
    ],
)
def test_pod_level_resources_determine_the_class(requests, limits, expected):
    pod = make_pod(containers=[container("a", {"cpu": "1"})], resources={"requests": requests, "limits": limits})

    assert compute_qos_class(pod) == expected


def test_memory_that_no_container_claims_is_shared_in_the_oom_score():
    containers = [container("a", {"memory": "1Gi"}), container("b")]
    pod = make_pod(containers=containers, resources={"requests": {"memory": "3Gi"}})

    assert [oom_score_adj(pod, each, 10 * GI) for each in containers] == [800, 900]


def test_oom_score_of_a_sidecar_is_at_most_that_of_the_smallest_container():
    sidecar = container("side", {"memory": "1Gi"}, restart_policy="Always")
    pod = make_pod(
        init_containers=[sidecar], containers=[container("a", {"memory": "2Gi"}), container("b", {"memory": "5Gi"})]
    )

    assert oom_score_adj(pod, sidecar, 10 * GI) == 800


@pytest.mark.parametrize(
    ("priority", "name", "critical"),
    [
        (2_000_000_000, "system-node-critical", (True, True)),
        (2_000_001_000, "system-cluster-critical", (True, False)),
        (1_999_999_999, "system-node-critical", (False, False)),
        (None, "system-node-critical", (False, False)),
        (2_000_000_000, "", (True, False)),
    ],
)
def test_node_critical_pod_has_both_priority_and_class(priority, name, critical):
    pod = make_pod(priority=priority, priority_class_name=name)
    assert (is_critical(pod), is_node_critical(pod)) == critical


@pytest.mark.parametrize(("memory", "score"), [("3Gi", 250), ("4Gi", 3), ("5Gi", 3), ("4092Mi", 3), ("1Mi", 999)])
def test_score_of_a_burstable_container_is_between_the_other_classes(memory, score):
    pod = make_pod(containers=[container("main", {"memory": memory})])
    assert oom_score_adj(pod, pod.spec.containers[0], 4 * GI) == score


def test_score_without_a_known_capacity_is_the_highest_of_its_class():
    pod = make_pod(containers=[container("main", {"memory": "1Gi"})])
    assert oom_score_adj(pod, pod.spec.containers[0], 0) == 999

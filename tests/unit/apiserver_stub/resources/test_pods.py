"""Pods: defaults, classes, rules and grace."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from apiserver_stub.admission.service_account import TOKEN_PATH, mount_token
from apiserver_stub.controllers.scheduler import waits
from apiserver_stub.gates import build_gates
from apiserver_stub.resources.pod_defaults import apply_defaults, image_pull_policy
from apiserver_stub.resources.pod_qos import qos_class
from apiserver_stub.resources.pod_rules import validate_pod, validate_pod_update
from apiserver_stub.resources.pods import PodStrategy


def pod(**spec: Any) -> dict[str, Any]:
    made = {
        "kind": "Pod",
        "apiVersion": "v1",
        "metadata": {"name": "p", "namespace": "default"},
        "spec": {"containers": [{"name": "c", "image": "i:1"}], **spec},
        "status": {"phase": "Pending"},
    }
    apply_defaults(made)
    return made


@pytest.mark.parametrize(
    ("image", "policy"),
    [
        ("busybox", "Always"),
        ("busybox:latest", "Always"),
        ("busybox:1", "IfNotPresent"),
        ("host:5000/busybox", "Always"),
        ("host:5000/busybox:1", "IfNotPresent"),
        ("busybox@sha256:00", "IfNotPresent"),
    ],
)
def test_pull_policy_by_tag(image: str, policy: str) -> None:
    assert image_pull_policy(image) == policy


def test_defaults_reach_every_corner() -> None:
    made = pod(
        hostNetwork=True,
        terminationGracePeriodSeconds=-5,
        serviceAccount="robot",
        initContainers=[
            {"name": "i", "image": "i:1", "env": [{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "x"}}}]}
        ],
        containers=[
            {"name": "c", "image": "i:1", "ports": [{"containerPort": 80}], "readinessProbe": {"grpc": {"port": 1}}}
        ],
        volumes=[
            {"name": "e"},
            {"name": "s", "secret": {"secretName": "s"}},
            {"name": "h", "hostPath": {"path": "/x"}},
            {"name": "p", "projected": {"sources": [{"serviceAccountToken": {"path": "t"}}]}},
        ],
    )["spec"]

    assert made["terminationGracePeriodSeconds"] == 1
    assert made["serviceAccountName"] == "robot"
    assert made["initContainers"][0]["env"][0]["valueFrom"]["fieldRef"]["apiVersion"] == "v1"
    assert made["containers"][0]["ports"] == [{"containerPort": 80, "protocol": "TCP", "hostPort": 80}]
    assert made["containers"][0]["readinessProbe"]["grpc"] == {"port": 1, "service": ""}
    assert made["volumes"][0] == {"name": "e", "emptyDir": {}}
    assert made["volumes"][1]["secret"]["defaultMode"] == 420
    assert made["volumes"][2]["hostPath"]["type"] == ""
    assert made["volumes"][3]["projected"]["sources"][0]["serviceAccountToken"]["expirationSeconds"] == 3600


def test_defaults_are_stable() -> None:
    once = pod(volumes=[{"name": "e"}])
    twice = copy.deepcopy(once)

    apply_defaults(twice)

    assert twice == once


@pytest.mark.parametrize(
    ("resources", "expected"),
    [
        ({}, "BestEffort"),
        ({"requests": {"cpu": "1"}}, "Burstable"),
        ({"limits": {"cpu": "1"}}, "Burstable"),
        ({"limits": {"cpu": "1", "memory": "1Gi"}}, "Guaranteed"),
        ({"limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "1000m", "memory": "1024Mi"}}, "Guaranteed"),
        ({"limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "500m"}}, "Burstable"),
        ({"limits": {"cpu": "0"}}, "BestEffort"),
    ],
)
def test_quality_of_service(resources: Any, expected: str) -> None:
    assert qos_class({"containers": [{"resources": resources}]}) == expected


def test_a_good_pod_has_no_causes() -> None:
    assert validate_pod(pod()) == []


@pytest.mark.parametrize(
    ("limits", "requests", "told"),
    [
        ({"cpu": "1"}, {"cpu": "2"}, ("requests", 'Invalid value: "2": must be less than or equal to cpu limit of 1')),
        ({"memory": "-1"}, {}, ("limits[memory]", 'Invalid value: "-1": must be greater than or equal to 0')),
        (
            {"hugepages-2Mi": "4Mi"},
            {"hugepages-2Mi": "2Mi"},
            ("requests", 'Invalid value: "2Mi": must be equal to hugepages-2Mi limit of 4Mi'),
        ),
        (
            {"example.com/gpu": "2"},
            {"example.com/gpu": "1"},
            ("requests", 'Invalid value: "1": must be equal to example.com/gpu limit of 2'),
        ),
        ({"cpu": "2", "memory": "1Gi"}, {"cpu": "1"}, None),
    ],
)
def test_nobody_is_promised_more_than_the_limit(
    limits: dict[str, str], requests: dict[str, str], told: tuple[str, str] | None
) -> None:
    resources = {"limits": limits, "requests": requests}
    found = validate_pod(pod(containers=[{"name": "c", "image": "i:1", "resources": resources}]))

    wanted = (f"spec.containers[0].resources.{told[0]}", told[1]) if told is not None else None
    assert wanted is None or wanted in [(cause.field, cause.message) for cause in found]
    assert bool(found) == (wanted is not None)


def test_init_containers_are_sidecars_or_end() -> None:
    probe = {"exec": {"command": ["true"]}}
    ends = pod(initContainers=[{"name": "i", "image": "x", "livenessProbe": probe}])
    stays = pod(initContainers=[{"name": "i", "image": "x", "livenessProbe": probe, "restartPolicy": "Always"}])
    wrong = pod(containers=[{"name": "c", "image": "x", "restartPolicy": "Always"}])

    assert [cause.field for cause in validate_pod(ends)] == ["spec.initContainers[0].livenessProbe"]
    assert validate_pod(stays) == []
    assert [cause.field for cause in validate_pod(wrong)] == ["spec.containers[0].restartPolicy"]


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"nodeName": "other"}, "spec"),
        ({"activeDeadlineSeconds": 20}, "spec.activeDeadlineSeconds"),
        ({"tolerations": []}, "spec.tolerations"),
        ({"containers": []}, "spec.containers"),
    ],
)
def test_most_of_a_pod_stays(change: dict[str, Any], field: str) -> None:
    old = pod(activeDeadlineSeconds=10, tolerations=[{"key": "a"}])
    new = {**old, "spec": {**old["spec"], **change}}

    assert [cause.field for cause in validate_pod_update(new, old)] == [field]


def test_some_of_a_pod_changes() -> None:
    old = pod(activeDeadlineSeconds=10, tolerations=[{"key": "a"}])
    new = copy.deepcopy(old)
    new["spec"]["containers"][0]["image"] = "i:2"
    new["spec"]["activeDeadlineSeconds"] = 5
    new["spec"]["tolerations"].append({"key": "b"})

    assert validate_pod_update(new, old) == []


@pytest.mark.parametrize(
    ("spec", "status", "requested", "expected"),
    [
        ({}, {}, None, 0),
        ({"nodeName": "n"}, {}, None, 30),
        ({"nodeName": "n"}, {}, 5, 5),
        ({"nodeName": "n"}, {}, 0, 0),
        ({"nodeName": "n"}, {"phase": "Succeeded"}, None, 0),
        ({"nodeName": "n", "terminationGracePeriodSeconds": 0}, {}, None, 0),
    ],
)
def test_grace(spec: Any, status: Any, requested: int | None, expected: int) -> None:
    made = pod(**spec)
    made["status"] = status

    assert PodStrategy(build_gates({})).grace_seconds(made, requested) == expected


def test_grace_only_shrinks() -> None:
    made = pod(nodeName="n")
    made["metadata"] |= {"deletionTimestamp": "2026-11-21T00:00:00Z", "deletionGracePeriodSeconds": 10}

    assert [PodStrategy(build_gates({})).grace_seconds(made, requested) for requested in (None, 60, 5, 0)] == [
        10,
        10,
        5,
        0,
    ]


def test_the_token_is_mounted_once_a_container() -> None:
    spec = pod()["spec"]
    spec["containers"].append({"name": "d", "volumeMounts": [{"name": "mine", "mountPath": TOKEN_PATH}]})

    mount_token(spec)

    assert spec["containers"][0]["volumeMounts"][0]["mountPath"] == TOKEN_PATH
    assert len(spec["containers"][1]["volumeMounts"]) == 1
    assert spec["volumes"][0]["name"] == spec["containers"][0]["volumeMounts"][0]["name"]


def test_only_unassigned_pods_wait_for_the_scheduler() -> None:
    assert waits(pod())
    assert not waits(pod(nodeName="n"))
    assert not waits(pod(schedulerName="mine"))
    assert not waits(pod(schedulingGates=[{"name": "g"}]))

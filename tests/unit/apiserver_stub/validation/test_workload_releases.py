"""Tests for the validation of workloads that depends on the release."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from apiserver_stub.apimachinery.status import Cause
from apiserver_stub.kinds import autoscaling, jobs, stateful_sets
from apiserver_stub.kinds.registry import Strategy
from apiserver_stub.options import parse

TEMPLATE = {
    "metadata": {"labels": {"a": "b"}},
    "spec": {
        "restartPolicy": "Always",
        "dnsPolicy": "ClusterFirst",
        "terminationGracePeriodSeconds": 30,
        "containers": [
            {
                "name": "c",
                "image": "i",
                "imagePullPolicy": "Always",
                "terminationMessagePolicy": "File",
                "volumeMounts": [{"name": "data", "mountPath": "/data"}],
            }
        ],
    },
}
CLAIM = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
STATEFUL_SET = {
    "metadata": {"name": "s"},
    "spec": {
        "podManagementPolicy": "OrderedReady",
        "updateStrategy": {"type": "RollingUpdate"},
        "serviceName": "web",
        "selector": {"matchLabels": {"a": "b"}},
        "template": TEMPLATE,
        "volumeClaimTemplates": [{"metadata": {"name": "data"}, "spec": CLAIM}],
    },
}


def strategy(kind: str, release: str = "1.36") -> Strategy:
    options = parse([f"--compatibility-version={release}"])
    families = (autoscaling, jobs, stateful_sets)
    return next(item.strategy for family in families for item in family.resources(options) if item.kind == kind)


def changed(obj: Any, *path: str | int, value: Any) -> Any:
    result = copy.deepcopy(obj)
    target = result
    for name in path[:-1]:
        target = target[name]
    target[path[-1]] = value
    return result


def fields(causes: list[Cause]) -> list[str]:
    return [cause.field for cause in causes]


IMAGE = ("spec", "template", "spec", "containers", 0, "image")


@pytest.mark.parametrize(
    ("path", "value", "field"),
    [
        (IMAGE, "", "spec.template.spec.containers[0].image"),
        (("spec", "serviceName"), "Not_A_Name", "spec.serviceName"),
        (
            ("spec", "volumeClaimTemplates", 0, "spec", "accessModes"),
            [],
            "spec.volumeClaimTemplates[0].spec.accessModes",
        ),
        (("spec", "volumeClaimTemplates"), [], "spec.template.spec.containers[0].volumeMounts[0].name"),
    ],
)
def test_stateful_sets_are_validated_completely_since_1_36(path: tuple[str | int, ...], value: Any, field: str) -> None:
    new = changed(STATEFUL_SET, *path, value=value)

    assert fields(strategy("StatefulSet").validate(STATEFUL_SET)) == []
    assert fields(strategy("StatefulSet").validate(new)) == [field]
    assert fields(strategy("StatefulSet", "1.35").validate(new)) == []


def test_stored_stateful_sets_with_invalid_pods_can_be_changed() -> None:
    old = changed(STATEFUL_SET, *IMAGE, value="")
    new = changed(old, "spec", "replicas", value=2)

    assert fields(strategy("StatefulSet").validate_update(new, old, "")) == []
    assert fields(strategy("StatefulSet").validate_update(old, STATEFUL_SET, "")) == [
        "spec.template.spec.containers[0].image"
    ]


@pytest.mark.parametrize(("manager", "count"), [("example.com/own", 0), ("own", 1), ("example.com/" + "a" * 60, 1)])
def test_managers_of_jobs_have_a_domain(manager: str, count: int) -> None:
    template = changed(TEMPLATE, "spec", "restartPolicy", value="Never")
    template = changed(template, "spec", "containers", 0, "volumeMounts", value=[])
    schedule = {"schedule": "* * * * *", "concurrencyPolicy": "Allow", "jobTemplate": {"spec": {"template": template}}}
    cron_job = {"metadata": {"name": "c"}, "spec": changed(schedule, "jobTemplate", "spec", "managedBy", value=manager)}

    assert fields(strategy("CronJob").validate(cron_job)) == ["spec.jobTemplate.spec.managedBy"] * count


@pytest.mark.parametrize(
    ("version", "kind", "release", "valid"),
    [
        ("apps/v1", "Deployment", "1.36", True),
        ("v1", "Deployment", "1.36", False),
        ("", "Deployment", "1.35", True),
        ("v1", "ReplicationController", "1.36", True),
        ("a/b/c", "Deployment", "1.36", False),
    ],
)
def test_autoscaled_objects_have_a_group_since_1_36(version: str, kind: str, release: str, valid: bool) -> None:
    target = {"apiVersion": version, "kind": kind, "name": "a"}
    scaler = {"metadata": {"name": "h"}, "spec": {"maxReplicas": 2, "minReplicas": 1, "scaleTargetRef": target}}
    expected = [] if valid else ["spec.scaleTargetRef.apiVersion"]

    assert fields(strategy("HorizontalPodAutoscaler", release).validate(scaler)) == expected
    assert fields(strategy("HorizontalPodAutoscaler", release).validate_update(scaler, scaler, "")) == []


def test_missing_maximum_of_an_autoscaler_is_reported_since_1_36() -> None:
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "a"}
    scaler = {"metadata": {"name": "h"}, "spec": {"minReplicas": 0, "scaleTargetRef": target}}
    reasons = {
        release: strategy("HorizontalPodAutoscaler", release).validate(
            changed(scaler, "spec", "minReplicas", value=None)
        )
        for release in ("1.35", "1.36")
    }

    assert {release: [cause.reason for cause in causes] for release, causes in reasons.items()} == {
        "1.35": ["FieldValueInvalid"],
        "1.36": ["FieldValueRequired"],
    }

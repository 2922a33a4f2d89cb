"""Validation of HorizontalPodAutoscalers."""

from __future__ import annotations

from typing import Any

import pytest

from apiserver_stub.validation.autoscalers import validate_autoscaler, validate_autoscaler_status
from nodeagent.base.release import Release

TARGET = {"kind": "Deployment", "name": "web"}
SPEC: dict[str, Any] = {"minReplicas": 1, "maxReplicas": 3, "scaleTargetRef": TARGET}
METRIC = {"metric": {"name": "rate"}}
POLICY = {"type": "Pods", "value": 1, "periodSeconds": 60}


def found(change: dict[str, Any], *, scales_to_zero: bool = False) -> list[tuple[str, str]]:
    causes = validate_autoscaler({"spec": {**SPEC, **change}}, "kubernetes.io", scales_to_zero=scales_to_zero)
    return [(cause.reason.removeprefix("FieldValue"), cause.field.removeprefix("spec.")) for cause in causes]


@pytest.mark.parametrize(
    ("change", "errors"),
    [
        ({}, []),
        ({"minReplicas": None, "maxReplicas": 1}, []),
        ({"minReplicas": 3}, []),
        ({"minReplicas": 0}, [("Invalid", "minReplicas"), ("Forbidden", "metrics")]),
        ({"minReplicas": 4}, [("Invalid", "maxReplicas")]),
        ({"minReplicas": None, "maxReplicas": 0}, [("Invalid", "maxReplicas")]),
        ({"scaleTargetRef": {"kind": "Deployment"}}, [("Required", "scaleTargetRef.name")]),
        ({"scaleTargetRef": {"kind": "a/b", "name": "web"}}, [("Invalid", "scaleTargetRef.kind")]),
    ],
)
def test_replicas_and_target_are_checked(change: dict[str, Any], errors: list[tuple[str, str]]) -> None:
    assert found(change) == errors


@pytest.mark.parametrize(
    ("metrics", "errors"),
    [
        ([], [("Forbidden", "metrics")]),
        ([{"type": "External", "external": {**METRIC, "target": {"type": "Value", "value": "1"}}}], []),
    ],
)
def test_scaling_to_zero_needs_a_metric_that_no_pod_provides(metrics: list[Any], errors: list[tuple[str, str]]) -> None:
    assert found({"minReplicas": 0, "metrics": metrics}, scales_to_zero=True) == errors


@pytest.mark.parametrize(
    ("minor", "detail"), [(35, "must be greater than 0"), (36, "must be greater than or equal to 1")]
)
def test_negative_maximum_is_reported_by_release(minor: int, detail: str) -> None:
    autoscaler = {"spec": {**SPEC, "minReplicas": None, "maxReplicas": -1}}
    autoscaler["spec"]["scaleTargetRef"] = {**TARGET, "apiVersion": "apps/v1"}
    causes = validate_autoscaler(autoscaler, "kubernetes.io", scales_to_zero=False, release=Release(1, minor))

    assert [cause.message for cause in causes] == [f"Invalid value: -1: {detail}"]


def resource(**target: Any) -> dict[str, Any]:
    return {"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", **target}}}


def source(kind: str, name: str, target: dict[str, Any], **fields: Any) -> dict[str, Any]:
    return {"type": kind, name: {**METRIC, "target": {"type": "Value", **target}, **fields}}


@pytest.mark.parametrize(
    ("metric", "errors"),
    [
        (resource(averageUtilization=1), []),
        (resource(averageValue="1"), []),
        (resource(averageUtilization=0), [("Invalid", "resource.target.averageUtilization")]),
        (resource(averageValue="0"), [("Invalid", "resource.target.averageValue")]),
        (resource(), [("Required", "resource.target.averageUtilization")]),
        (resource(averageUtilization=1, averageValue="1"), [("Forbidden", "resource.target.averageValue")]),
        (
            resource(type="", averageValue="1"),
            [("Required", "resource.target.type"), ("Invalid", "resource.target.type")],
        ),
        (source("Pods", "pods", {"averageValue": "1"}), []),
        (source("Pods", "pods", {"value": "1"}), [("Required", "pods.target.averageValue")]),
        (source("External", "external", {"value": "1"}), []),
        (source("External", "external", {}), [("Required", "external.target.averageValue")]),
        (
            source("External", "external", {"value": "1", "averageValue": "1"}),
            [("Forbidden", "external.target.value")],
        ),
        (source("External", "external", {"value": "1"}, metric={}), [("Required", "external.metric.name")]),
        (source("Object", "object", {"value": "1", "averageValue": "1"}, describedObject=TARGET), []),
        (
            source("Object", "object", {"value": "1"}),
            [("Required", "object.describedObject.kind"), ("Required", "object.describedObject.name")],
        ),
        (source("Pods", "object", {"value": "1"}, describedObject=TARGET), [("Required", "pods")]),
        ({**resource(averageValue="1"), **source("Resource", "pods", {"averageValue": "1"})}, [("Forbidden", "pods")]),
        ({}, [("Required", "type"), ("NotSupported", "type"), ("NotSupported", "type")]),
    ],
)
def test_metric_is_checked(metric: dict[str, Any], errors: list[tuple[str, str]]) -> None:
    assert found({"metrics": [metric]}) == [(reason, f"metrics[0].{field}") for reason, field in errors]


@pytest.mark.parametrize(
    ("change", "errors"),
    [
        ({}, []),
        ({"name": ""}, [("Required", "name")]),
        ({"container": ""}, [("Required", "container")]),
        ({"container": "A_"}, [("Invalid", "container")]),
    ],
)
def test_metric_of_a_container_names_it(change: dict[str, Any], errors: list[tuple[str, str]]) -> None:
    target = {"type": "Utilization", "averageUtilization": 50}
    metric = {"type": "ContainerResource", "containerResource": {"name": "cpu", "container": "c", "target": target}}
    metric["containerResource"] |= change  # type: ignore[operator]

    assert found({"metrics": [metric]}) == [
        (reason, f"metrics[0].containerResource.{field}") for reason, field in errors
    ]


@pytest.mark.parametrize("direction", ["scaleUp", "scaleDown"])
@pytest.mark.parametrize(
    ("change", "errors"),
    [
        ({"stabilizationWindowSeconds": 0, "selectPolicy": "Min", "tolerance": "0"}, []),
        ({"stabilizationWindowSeconds": 3600}, []),
        ({"stabilizationWindowSeconds": -1}, [("Invalid", "stabilizationWindowSeconds")]),
        ({"stabilizationWindowSeconds": 3601}, [("Invalid", "stabilizationWindowSeconds")]),
        ({"selectPolicy": "None"}, [("NotSupported", "selectPolicy")]),
        ({"policies": []}, [("Required", "policies")]),
        ({"policies": [{**POLICY, "periodSeconds": 1800}]}, []),
        ({"policies": [{**POLICY, "periodSeconds": 1801}]}, [("Invalid", "policies[0].periodSeconds")]),
        ({"policies": [{**POLICY, "value": 0}]}, [("Invalid", "policies[0].value")]),
        ({"policies": [{"value": 1, "periodSeconds": 1}]}, [("NotSupported", "policies[0].type")]),
        (
            {"policies": [{"type": "Pods"}]},
            [("Invalid", "policies[0].value"), ("Invalid", "policies[0].periodSeconds")],
        ),
        ({"tolerance": "-1"}, [("Invalid", "tolerance")]),
    ],
)
def test_behavior_is_checked(direction: str, change: dict[str, Any], errors: list[tuple[str, str]]) -> None:
    rules = {"policies": [POLICY], **change}

    assert found({"behavior": {direction: rules}}) == [
        (reason, f"behavior.{direction}.{field}") for reason, field in errors
    ]


def test_replicas_in_the_status_are_not_negative() -> None:
    causes = validate_autoscaler_status({"currentReplicas": 0, "desiredReplicas": -1})

    assert [cause.field for cause in causes] == ["status.desiredReplicas"]

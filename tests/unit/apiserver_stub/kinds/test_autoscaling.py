"""Tests for HorizontalPodAutoscalers: versions, defaults, validation and columns."""

from __future__ import annotations

import json
from typing import Any

import pytest

from apiserver_stub.apimachinery.objects import Object
from apiserver_stub.controllers.autoscaling.limits import History, bounded
from apiserver_stub.kinds.autoscaler_versions import to_v1, to_v2
from apiserver_stub.kinds.registry import Resource
from apiserver_stub.options import parse
from apiserver_stub.server.kinds import build_registry

DOMAIN = "kubernetes.io"
MEMORY = {"type": "Resource", "resource": {"name": "memory", "target": {"type": "AverageValue", "averageValue": "1Gi"}}}
CPU = {"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 50}}}


def resource(version: str, *arguments: str) -> Resource:
    found = build_registry(parse(list(arguments))).find("autoscaling", version, "horizontalpodautoscalers")
    assert found is not None
    return found


def autoscaler(version: str = "v2", **spec: Any) -> Object:
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}
    return {
        "apiVersion": f"autoscaling/{version}",
        "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": "web"},
        "spec": {"scaleTargetRef": target, "maxReplicas": 3, **spec},
    }


def test_metrics_of_both_versions_are_equivalent() -> None:
    current = autoscaler(metrics=[MEMORY, CPU], behavior={"scaleUp": {"selectPolicy": "Max"}})

    old = to_v1(DOMAIN, current)

    assert old["spec"]["targetCPUUtilizationPercentage"] == 50
    assert "metrics" not in old["spec"]
    assert set(old["metadata"]["annotations"]) == {
        "autoscaling.alpha.kubernetes.io/metrics",
        "autoscaling.alpha.kubernetes.io/behavior",
    }
    assert old["status"] == {"currentReplicas": 0, "desiredReplicas": 0}
    assert to_v2(DOMAIN, old) == {**current, "status": {"desiredReplicas": 0}}


def test_last_utilization_of_the_cpu_becomes_the_field_of_version_1() -> None:
    other = {"type": "Utilization", "averageUtilization": 60}
    old = to_v1(DOMAIN, autoscaler(metrics=[CPU, {"type": "Resource", "resource": {"name": "cpu", "target": other}}]))

    assert old["spec"]["targetCPUUtilizationPercentage"] == 60
    assert "annotations" not in old["metadata"]


@pytest.mark.parametrize(("has_tolerance", "more"), [(False, {}), (True, {"Tolerance": None})])
def test_behavior_of_version_1_has_the_names_of_go_fields(has_tolerance: bool, more: dict[str, Any]) -> None:
    rules = {"selectPolicy": "Max", "policies": [{"type": "Pods", "value": 2, "periodSeconds": 60}]}

    old = to_v1(DOMAIN, autoscaler(behavior={"scaleUp": rules}), has_tolerance=has_tolerance)

    policies = [{"Type": "Pods", "Value": 2, "PeriodSeconds": 60}]
    assert json.loads(old["metadata"]["annotations"]["autoscaling.alpha.kubernetes.io/behavior"]) == {
        "ScaleUp": {"StabilizationWindowSeconds": None, "SelectPolicy": "Max", "Policies": policies, **more},
        "ScaleDown": None,
    }
    assert to_v2(DOMAIN, old)["spec"]["behavior"] == {"scaleUp": rules}


@pytest.mark.parametrize("name", ["metrics", "current-metrics", "conditions", "behavior"])
@pytest.mark.parametrize(
    "text",
    [
        "{",
        "[1]",
        '"x"',
        "5",
        "[null]",
        '{"scaleUp": 5}',
        '{"scaleUp": {"policies": {"a": 1}}}',
        '{"scaleDown": {"stabilizationWindowSeconds": "x"}}',
        '[{"type": 5}]',
        '[{"type": "Resource", "resource": 5}]',
        '[{"type": "External", "external": {"metricName": [], "targetValue": {}, "currentValue": {}}}]',
    ],
)
def test_invalid_annotation_of_version_1_is_dropped(name: str, text: str) -> None:
    old = autoscaler("v1")
    old["metadata"]["annotations"] = {f"autoscaling.alpha.kubernetes.io/{name}": text, "a": "b"}

    new = to_v2(DOMAIN, old)

    assert new["metadata"]["annotations"] == {"a": "b"}
    assert new["spec"] == autoscaler()["spec"]
    assert not new.get("status")


@pytest.mark.parametrize("rules", [None, {}, {"stabilizationWindowSeconds": None, "policies": None}])
def test_behavior_without_values_limits_nothing(rules: Any) -> None:
    old = autoscaler("v1")
    text = json.dumps({"scaleUp": rules, "scaleDown": rules})
    old["metadata"]["annotations"] = {"autoscaling.alpha.kubernetes.io/behavior": text}

    behavior = to_v2(DOMAIN, old)["spec"]["behavior"]

    assert bounded(3, 3, 1, 10, behavior, History(), 0.0).replicas == 3


def test_defaults_of_both_versions() -> None:
    current, old = autoscaler(behavior={}), autoscaler("v1")
    resource("v2").strategy.default(current)
    resource("v1").strategy.default(old)

    assert current["spec"]["metrics"][0]["resource"]["target"]["averageUtilization"] == 80
    assert current["spec"]["behavior"]["scaleDown"]["selectPolicy"] == "Max"
    assert (old["spec"]["minReplicas"], old["spec"]["targetCPUUtilizationPercentage"]) == (1, 80)


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        ({"maxReplicas": 0}, "spec.maxReplicas"),
        ({"minReplicas": 0}, "spec.minReplicas"),
        ({"minReplicas": 5}, "spec.maxReplicas"),
        ({"scaleTargetRef": {"kind": "Deployment"}}, "spec.scaleTargetRef.name"),
        ({"metrics": [{"type": "Resource"}]}, "spec.metrics[0].resource"),
        ({"metrics": [{**CPU, "type": "Pods"}]}, "spec.metrics[0].pods"),
        ({"behavior": {"scaleUp": {"policies": []}}}, "spec.behavior.scaleUp.policies"),
    ],
)
def test_invalid_specification_is_rejected(spec: Object, field: str) -> None:
    errors = resource("v2").strategy.validate(autoscaler(**spec))

    assert field in {error.field for error in errors}


@pytest.mark.row("gate.HPAScaleToZero")
def test_scaling_to_zero_needs_the_gate_and_another_metric() -> None:
    enabled = resource("v2", "--feature-gates=HPAScaleToZero=true").strategy
    source = {"metric": {"name": "queue"}, "target": {"type": "Value", "value": "1"}}

    assert enabled.validate(autoscaler(minReplicas=0, metrics=[{"type": "External", "external": source}])) == []
    assert [error.field for error in enabled.validate(autoscaler(minReplicas=0, metrics=[CPU]))] == ["spec.metrics"]


def test_columns_of_both_versions_are_equal() -> None:
    current = autoscaler(metrics=[MEMORY, CPU])
    rows = [
        [column.cell(obj) for column in resource(version).columns]
        for version, obj in (("v2", current), ("v1", to_v1(DOMAIN, current)))
    ]

    assert rows[0] == rows[1]
    assert rows[0][1:3] == ["Deployment/web", "<unknown>/1Gi, <unknown>/50%"]


DESCRIBED = {"kind": "Service", "name": "s", "apiVersion": "v1"}
SELECTOR = {"matchLabels": {"a": "b"}}
BOTH = [  # Type, source of version 2, fields of version 1: for metrics, then for their statuses.
    (
        "Object",
        {"describedObject": DESCRIBED, "metric": {"name": "m", "selector": SELECTOR}},
        {"target": DESCRIBED, "metricName": "m", "selector": SELECTOR},
        {"value": "1", "averageValue": "2"},
        {"{}Value": "1", "averageValue": "2"},
    ),
    (
        "External",
        {"metric": {"name": "m", "selector": SELECTOR}},
        {"metricName": "m", "metricSelector": SELECTOR},
        {"value": "1", "averageValue": "2"},
        {"{}Value": "1", "{}AverageValue": "2"},
    ),
    ("Pods", {"metric": {"name": "m"}}, {"metricName": "m"}, {"averageValue": "2"}, {"{}AverageValue": "2"}),
    (
        "ContainerResource",
        {"name": "cpu", "container": "c"},
        {"name": "cpu", "container": "c"},
        {"averageUtilization": 5},
        {"{}AverageUtilization": 5},
    ),
    ("Resource", {"name": "memory"}, {"name": "memory"}, {"averageValue": "2"}, {"{}AverageValue": "2"}),
]


@pytest.mark.parametrize(("kind", "source", "old_source", "amounts", "old_amounts"), BOTH, ids=[row[0] for row in BOTH])
def test_each_kind_of_metric_is_converted(
    kind: str, source: Object, old_source: Object, amounts: Object, old_amounts: Object
) -> None:
    field = kind[0].lower() + kind[1:]
    target_type = {"averageValue": "AverageValue", "averageUtilization": "Utilization"}[[*amounts][-1]]
    current = autoscaler(metrics=[{"type": kind, field: {**source, "target": {"type": target_type, **amounts}}}])
    current["status"] = {
        "desiredReplicas": 1,
        "currentMetrics": [{"type": kind, field: {**source, "current": amounts}}],
    }

    old = to_v1(DOMAIN, current)

    found = old["metadata"]["annotations"]
    for name, prefix in (("metrics", "target"), ("current-metrics", "current")):
        expected = {**old_source, **{key.format(prefix): value for key, value in old_amounts.items()}}
        assert json.loads(found[f"autoscaling.alpha.kubernetes.io/{name}"]) == [{"type": kind, field: expected}]
    assert to_v2(DOMAIN, old) == current


def test_only_cpu_utilization_is_a_field_of_version_1() -> None:
    amount = {"name": "cpu", "target": {"type": "AverageValue", "averageValue": "1"}}
    container = {"name": "cpu", "container": "c", "target": {"type": "Utilization", "averageUtilization": 5}}
    metrics = [
        {"type": "Resource", "resource": amount},
        {"type": "ContainerResource", "containerResource": container},
        {"type": "Resource", "resource": {**container, "name": "memory"}},
    ]

    old = to_v1(DOMAIN, autoscaler(metrics=metrics))

    assert "targetCPUUtilizationPercentage" not in old["spec"]
    assert len(json.loads(old["metadata"]["annotations"]["autoscaling.alpha.kubernetes.io/metrics"])) == 3


@pytest.mark.parametrize(
    ("name", "amounts", "expected"),
    [
        ("cpu", {"averageUtilization": 5}, 5),
        ("cpu", {"averageValue": "1"}, None),
        ("memory", {"averageUtilization": 5}, None),
    ],
)
def test_current_cpu_utilization_is_a_field_of_version_1(name: str, amounts: Object, expected: int | None) -> None:
    current = autoscaler()
    current["status"] = {"currentMetrics": [{"type": "Resource", "resource": {"name": name, "current": amounts}}]}

    old = to_v1(DOMAIN, current)

    assert old["status"].get("currentCPUUtilizationPercentage") == expected
    assert to_v2(DOMAIN, old)["status"]["currentMetrics"] == current["status"]["currentMetrics"]


def test_metric_without_a_name_and_other_targets_are_read() -> None:
    old = autoscaler("v1")
    metrics = [{"type": "External", "external": {"metricName": "", "targetValue": "1"}}]
    metrics.append({"type": "Pods", "pods": {"metricName": "m", "target": DESCRIBED, "targetAverageValue": "1"}})
    old["metadata"]["annotations"] = {"autoscaling.alpha.kubernetes.io/metrics": json.dumps(metrics)}

    found = to_v2(DOMAIN, old)["spec"]["metrics"]

    assert [next(value for key, value in item.items() if key != "type") for item in found] == [
        {"metric": {"name": ""}, "target": {"type": "Value", "value": "1"}},
        {"metric": {"name": "m"}, "target": {"type": "AverageValue", "averageValue": "1"}},
    ]


@pytest.mark.parametrize(("release", "has_tolerance"), [("1.32", False), ("1.33", True)])
def test_behavior_of_version_1_follows_the_release(release: str, *, has_tolerance: bool) -> None:
    convert = resource("v1", f"--compatibility-version={release}").convert
    assert convert is not None

    old = convert(autoscaler(behavior={"scaleUp": {"selectPolicy": "Max"}}))

    behavior = json.loads(old["metadata"]["annotations"]["autoscaling.alpha.kubernetes.io/behavior"])
    assert ("Tolerance" in behavior["ScaleUp"]) is has_tolerance


@pytest.mark.parametrize(("before", "errors"), [(0, []), (1, ["spec.minReplicas"])])
def test_stored_minimum_of_zero_is_kept(before: int, errors: list[str]) -> None:
    strategy = resource("v2").strategy
    old, new = autoscaler(minReplicas=before, metrics=[MEMORY]), autoscaler(minReplicas=0, metrics=[MEMORY])
    new["metadata"]["resourceVersion"] = old["metadata"]["resourceVersion"] = "1"

    found = [error.field for error in strategy.validate_update(new, old, "")]

    assert [field for field in found if field == "spec.minReplicas"] == errors
    assert [error.field for error in strategy.validate(new)][:1] == ["spec.minReplicas"]


def test_update_of_the_status_may_omit_it() -> None:
    assert isinstance(resource("v2").strategy.validate_update(autoscaler(), autoscaler(), "status"), list)


@pytest.mark.parametrize(
    ("kind", "target", "current", "text"),
    [
        ("External", {"value": "3"}, {"value": "2"}, "2/3"),
        ("External", {"value": "3"}, {}, "<unknown>/3"),
        ("Object", {}, {}, "<unknown>/0"),
        ("External", {"averageValue": "3"}, {"averageValue": "2"}, "2/3 (avg)"),
        ("Object", {"averageValue": "3"}, {}, "<unknown>/3 (avg)"),
        ("Pods", {"averageValue": "3"}, {"averageValue": "2"}, "2/3"),
        ("Resource", {"averageUtilization": 3}, {"averageUtilization": 2}, "cpu: 2%/3%"),
        ("ContainerResource", {}, {}, "cpu: <unknown>/<auto>"),
        ("Resource", {"averageValue": "3"}, {}, "cpu: <unknown>/3"),
    ],
)
def test_targets_show_current_and_desired_values(kind: str, target: Object, current: Object, text: str) -> None:
    field = kind[0].lower() + kind[1:]
    obj = autoscaler(metrics=[{"type": kind, field: {"name": "cpu", "target": target}}])
    obj["status"] = {"currentMetrics": [{"type": kind, field: {"name": "cpu", "current": current}}]}
    column = resource("v2", "--compatibility-version=1.30").columns[2]

    assert column.cell(obj) == text
    assert column.cell({}) == "<none>"
    obj["spec"]["metrics"] *= 2
    assert column.cell(obj).count(",") == 1
    obj["spec"]["metrics"] *= 2
    assert column.cell(obj).endswith(" + 2 more...")

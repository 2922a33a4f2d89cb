"""Validation of HorizontalPodAutoscalers."""

from __future__ import annotations

from apiserver_stub.apimachinery.objects import Object
from apiserver_stub.apimachinery.status import (
    Cause,
    forbidden_value,
    invalid_each,
    invalid_value,
    not_supported,
    required,
)
from apiserver_stub.validation.names import path_problems
from apiserver_stub.validation.pod_templates import validate_not_negative
from apiserver_stub.validation.quantities import (
    validate_container_resource_name,
    validate_nonnegative_amount,
    validate_positive_amount,
)
from nodeagent.base.names import label_problems
from nodeagent.base.release import OLDEST, Release

_REQUIRES_FIELDS = Release(1, 36)
"""First release that requires the group of the scaled object, and reports a missing maximum as such."""
_SOURCES = {
    "ContainerResource": "containerResource",
    "External": "external",
    "Object": "object",
    "Pods": "pods",
    "Resource": "resource",
}
_ORDER = ("object", "external", "pods", "resource", "containerResource")
_TARGETS = ("Utilization", "Value", "AverageValue")
_SELECT, _POLICIES = ("Disabled", "Max", "Min"), ("Percent", "Pods")
_MAX_WINDOW_SECONDS, _MAX_PERIOD_SECONDS = 3600, 1800


def validate_autoscaler(
    autoscaler: Object,
    label_domain: str,
    *,
    scales_to_zero: bool = False,
    old: Object | None = None,
    release: Release = OLDEST,
) -> list[Cause]:
    """Return the errors in the specification of a HorizontalPodAutoscaler in version ``v2``.

    :param label_domain: domain of native resources.
    :param scales_to_zero: the minimum number of replicas may be 0.
    :param old: the stored object, for an update.
    """
    spec = autoscaler["spec"]
    least, most, lowest = spec.get("minReplicas"), spec.get("maxReplicas") or 0, 0 if scales_to_zero else 1
    causes = []
    if least is not None and least < lowest:
        causes.append(invalid_value("spec.minReplicas", least, f"must be greater than or equal to {lowest}"))
    if most == 0 and release >= _REQUIRES_FIELDS:
        causes.append(required("spec.maxReplicas", "must be set and greater than 0"))
    elif most < 1:
        detail = "must be greater than or equal to 1" if release >= _REQUIRES_FIELDS else "must be greater than 0"
        causes.append(invalid_value("spec.maxReplicas", most, detail))
    if least is not None and most < least:
        causes.append(invalid_value("spec.maxReplicas", most, "must be greater than or equal to `minReplicas`"))
    target = spec.get("scaleTargetRef") or {}
    causes += _validate_reference(target, "spec.scaleTargetRef")
    causes += _validate_version(target, ((old or {}).get("spec") or {}).get("scaleTargetRef"), release)
    metrics = spec.get("metrics") or []
    for index, metric in enumerate(metrics):
        causes += _validate_metric(metric, f"spec.metrics[{index}]", label_domain)
    if least == 0 and not any(metric.get("type") in ("Object", "External") for metric in metrics):
        detail = "must specify at least one Object or External metric to support scaling to zero replicas"
        causes.append(forbidden_value("spec.metrics", detail))
    behavior = spec.get("behavior") or {}
    for name in ("scaleUp", "scaleDown"):
        if behavior.get(name) is not None:
            causes += _validate_rules(behavior[name], f"spec.behavior.{name}")
    return causes


def validate_autoscaler_status(status: Object) -> list[Cause]:
    """Return the errors in the status of a HorizontalPodAutoscaler."""
    return validate_not_negative(status, ("currentReplicas", "desiredReplicas"), "status")


def _validate_reference(reference: Object, field: str) -> list[Cause]:
    causes = []
    for name in ("kind", "name"):
        value = reference.get(name) or ""
        if value:
            causes += invalid_each(f"{field}.{name}", value, path_problems(value))
        else:
            causes.append(required(f"{field}.{name}"))
    return causes


def _validate_version(target: Object, before: Object | None, release: Release) -> list[Cause]:
    """Return the error in a new or changed API version of a scaled object, which names a group."""
    version, kind = target.get("apiVersion") or "", target.get("kind") or ""
    if release < _REQUIRES_FIELDS:
        return []
    if before is not None and (version, kind) == (before.get("apiVersion") or "", before.get("kind") or ""):
        return []
    field = "spec.scaleTargetRef.apiVersion"
    if version.count("/") > 1:
        return [invalid_value(field, version, f"unexpected GroupVersion string: {version}")]
    if "/" in version.strip("/") or (kind == "ReplicationController" and not version.startswith("/")):
        return []
    return [invalid_value(field, version, "apiVersion must specify API group")]


def _validate_metric(metric: Object, field: str, label_domain: str) -> list[Cause]:
    kind, causes = metric.get("type") or "", []
    if not kind:
        causes.append(required(f"{field}.type", "must specify a metric source type"))
    if kind not in _SOURCES:
        causes.append(not_supported(f"{field}.type", kind, tuple(_SOURCES)))
    given = [name for name in _ORDER if metric.get(name) is not None]
    if given:
        causes += _validate_source(given[0], metric[given[0]], f"{field}.{given[0]}", label_domain)
    expected = _SOURCES.get(kind, "")
    if not expected:
        causes.append(not_supported(f"{field}.type", kind, tuple(_SOURCES)))
    elif metric.get(expected) is None:
        detail = "must populate information for the given metric source"
        causes.append(required(f"{field}.{expected}", detail))
    if len(given) != 1:
        detail = "must populate the given metric source only"
        causes += [forbidden_value(f"{field}.{name}", detail) for name in given if name != expected]
    return causes


def _validate_source(kind: str, source: Object, field: str, label_domain: str) -> list[Cause]:
    causes: list[Cause] = []
    target = source.get("target") or {}
    value, average = target.get("value"), target.get("averageValue")
    utilization = target.get("averageUtilization")
    if kind in ("resource", "containerResource"):
        if not source.get("name"):
            causes.append(required(f"{field}.name", "must specify a resource name"))
        elif kind == "containerResource":
            causes += validate_container_resource_name(source["name"], f"{field}.name", label_domain)
        if kind == "containerResource":
            if name := source.get("container"):
                causes += invalid_each(f"{field}.container", name, label_problems(name))
            else:
                causes.append(required(f"{field}.container", "must specify a container"))
        causes += _validate_target(target, f"{field}.target")
        if utilization is None and average is None:
            detail = "must set either a target raw value or a target utilization"
            causes.append(required(f"{field}.target.averageUtilization", detail))
        if utilization is not None and average is not None:
            detail = "may not set both a target raw value and a target utilization"
            causes.append(forbidden_value(f"{field}.target.averageValue", detail))
        return causes
    if kind == "object":
        causes += _validate_reference(source.get("describedObject") or {}, f"{field}.describedObject")
    name = (source.get("metric") or {}).get("name") or ""
    if name:
        causes += invalid_each(f"{field}.metric.name", name, path_problems(name))
    else:
        causes.append(required(f"{field}.metric.name", "must specify a metric name"))
    causes += _validate_target(target, f"{field}.target")
    missing = {
        "object": "must set either a target value or averageValue",
        "external": "must set either a target value for metric or a per-pod target",
        "pods": "must specify a positive target averageValue",
    }[kind]
    if average is None and (kind == "pods" or value is None):
        causes.append(required(f"{field}.target.averageValue", missing))
    if kind == "external" and value is not None and average is not None:
        detail = "may not set both a target value for metric and a per-pod target"
        causes.append(forbidden_value(f"{field}.target.value", detail))
    return causes


def _validate_target(target: Object, field: str) -> list[Cause]:
    kind, causes = target.get("type") or "", []
    if not kind:
        causes.append(required(f"{field}.type", "must specify a metric target type"))
    if kind not in _TARGETS:
        causes.append(invalid_value(f"{field}.type", kind, "must be either Utilization, Value, or AverageValue"))
    for name in ("value", "averageValue"):
        if (amount := target.get(name)) is not None and validate_positive_amount(amount, ""):
            causes.append(invalid_value(f"{field}.{name}", amount, "must be positive"))
    utilization = target.get("averageUtilization")
    if utilization is not None and utilization < 1:
        causes.append(invalid_value(f"{field}.averageUtilization", utilization, "must be greater than 0"))
    return causes


def _validate_rules(rules: Object, field: str) -> list[Cause]:
    causes = []
    window, select, policies = rules.get("stabilizationWindowSeconds"), rules.get("selectPolicy"), rules.get("policies")
    path = f"{field}.stabilizationWindowSeconds"
    if window is not None and window < 0:
        causes.append(invalid_value(path, window, "must be greater than or equal to zero"))
    if window is not None and window > _MAX_WINDOW_SECONDS:
        causes.append(invalid_value(path, window, f"must be less than or equal to {_MAX_WINDOW_SECONDS}"))
    if select is not None and select not in _SELECT:
        causes.append(not_supported(f"{field}.selectPolicy", select, _SELECT))
    if not policies:
        causes.append(required(f"{field}.policies", "must specify at least one Policy"))
    for index, policy in enumerate(policies or ()):
        path = f"{field}.policies[{index}]"
        kind, value, period = policy.get("type") or "", policy.get("value") or 0, policy.get("periodSeconds") or 0
        if kind not in _POLICIES:
            causes.append(not_supported(f"{path}.type", kind, _POLICIES))
        for name, number in (("value", value), ("periodSeconds", period)):
            if number <= 0:
                causes.append(invalid_value(f"{path}.{name}", number, "must be greater than zero"))
        if period > _MAX_PERIOD_SECONDS:
            detail = f"must be less than or equal to {_MAX_PERIOD_SECONDS}"
            causes.append(invalid_value(f"{path}.periodSeconds", period, detail))
    if (tolerance := rules.get("tolerance")) is not None:
        causes += validate_nonnegative_amount(tolerance, f"{field}.tolerance")
    return causes

"""Conversion of HorizontalPodAutoscalers between ``v2``, which is stored, and ``v1``.

Version 1 has one field for the CPU utilization; other metrics, conditions and the behavior are annotations. No I/O.
"""

from __future__ import annotations

from typing import Any

import msgspec

from apiserver_stub.apimachinery import objects
from apiserver_stub.apimachinery.objects import Object, dig
from apiserver_stub.schema import field_validation, shapes
from apiserver_stub.schema.field_validation import SchemaMismatch

_PREFIX = "autoscaling.alpha"
_METRICS, _STATUSES, _CONDITIONS, _BEHAVIOR = "metrics", "current-metrics", "conditions", "behavior"
_DEFAULT_UTILIZATION = 80


def annotation(label_domain: str, name: str) -> str:
    """Return the annotation *name* of version 1."""
    return f"{_PREFIX}.{label_domain}/{name}"


def default_metrics() -> list[Object]:
    """Return the metrics of an autoscaler that names none: CPU utilization."""
    return [_utilization(_DEFAULT_UTILIZATION)]


def _utilization(percent: int) -> Object:
    target = {"type": "Utilization", "averageUtilization": percent}
    return {"type": "Resource", "resource": {"name": "cpu", "target": target}}


def to_v1(label_domain: str, autoscaler: Object, *, has_tolerance: bool = False) -> Object:
    """Return *autoscaler* of version 2 in version 1.

    :param has_tolerance: the behavior has the field ``tolerance``.
    """
    new: Object = objects.clone(autoscaler)
    new["apiVersion"] = "autoscaling/v1"
    spec, added = new.get("spec") or {}, {}
    status = new["status"] = {"currentReplicas": 0, "desiredReplicas": 0} | (new.get("status") or {})
    others = []
    for metric in spec.pop("metrics", None) or ():
        utilization = dig(metric, ("resource", "target", "averageUtilization"))
        is_cpu = metric.get("type") == "Resource" and dig(metric, ("resource", "name")) == "cpu"
        if is_cpu and utilization is not None:
            spec["targetCPUUtilizationPercentage"] = utilization
        else:
            others.append(_metric_to_v1(metric))
    current = []
    for metric in status.pop("currentMetrics", None) or ():
        utilization = dig(metric, ("resource", "current", "averageUtilization"))
        if dig(metric, ("resource", "name")) == "cpu" and utilization is not None:
            status["currentCPUUtilizationPercentage"] = utilization
        current.append(_metric_to_v1(metric, "current"))
    conditions, behavior = status.pop("conditions", None), spec.pop("behavior", None)
    if behavior is not None:
        behavior = _behavior_to_v1(behavior, has_tolerance=has_tolerance)
    for name, value in ((_METRICS, others), (_STATUSES, current), (_CONDITIONS, conditions), (_BEHAVIOR, behavior)):
        if value:
            added[annotation(label_domain, name)] = objects.encode(value).decode()
    if added:
        new["metadata"]["annotations"] = {**(new["metadata"].get("annotations") or {}), **added}
    return new


def to_v2(label_domain: str, autoscaler: Object) -> Object:
    """Return *autoscaler* of version 1 in version 2; annotations that cannot be read are dropped."""
    new: Object = objects.clone(autoscaler)
    new["apiVersion"] = "autoscaling/v2"
    spec, status = new.setdefault("spec", {}), new.get("status") or {}
    annotations = dict(new["metadata"].get("annotations") or {})

    def take(name: str, part: str, field: str, prefix: str = "") -> Any:
        text = annotations.pop(annotation(label_domain, name), None)
        try:
            return _field_of(text, part, field, prefix) if text is not None else None
        except (msgspec.DecodeError, SchemaMismatch):
            return None

    found = take(_METRICS, "spec", "metrics", "target") or []
    current = take(_STATUSES, "status", "currentMetrics", "current")
    conditions, behavior = take(_CONDITIONS, "status", "conditions"), take(_BEHAVIOR, "spec", "behavior")
    if (percent := spec.pop("targetCPUUtilizationPercentage", None)) is not None:
        found.append(_utilization(percent))
    if found:
        spec["metrics"] = found
    if behavior is not None:
        spec["behavior"] = behavior
    status.pop("currentCPUUtilizationPercentage", None)
    if status.get("currentReplicas") == 0:  # Not always shown, unlike in version 1.
        del status["currentReplicas"]
    if current:
        status["currentMetrics"] = current
    if conditions is not None:
        status["conditions"] = conditions
    if annotations:
        new["metadata"]["annotations"] = annotations
    else:
        new["metadata"].pop("annotations", None)
    return new


def _field_of(text: str, part: str, field: str, prefix: str) -> Any:
    """Return the content of an annotation as *field* of version 2; it is written by users, so its types are checked.

    :param prefix: as of :func:`_metric_to_v2`, if the field contains metrics.
    :raises DecodeError: *text* is not JSON.
    :raises SchemaMismatch: the content has another structure.
    """
    value = objects.decode(text.encode())
    if field == _BEHAVIOR:
        value = _with_json_names(value)
    if prefix and value is not None:
        if not isinstance(value, list) or not all(map(_is_metric, value)):
            raise SchemaMismatch("not a list of metrics")
        value = [_metric_to_v2(item, prefix) for item in value]
    if (shape := shapes.of("autoscaling/v2", "HorizontalPodAutoscaler", api_domain="")) is not None:
        field_validation.check({part: {field: value}}, shape, complete=True)
    return value


def _is_metric(value: Any) -> bool:
    """Return whether *value* has a type and an object with the name of the type, if any."""
    kind = value.get("type") or "" if isinstance(value, dict) else None
    return isinstance(kind, str) and isinstance(value.get(_json_name(kind)) or {}, dict)


_DIRECTIONS, _POLICY = ("ScaleUp", "ScaleDown"), ("Type", "Value", "PeriodSeconds")
_RULES = ("StabilizationWindowSeconds", "SelectPolicy", "Policies")
_TOLERANCE = "Tolerance"


def _behavior_to_v1(behavior: Object, *, has_tolerance: bool) -> Object:
    """Return *behavior* with the fields of upstream's Go type, which has no names for JSON."""
    result: Object = {}
    for direction in _DIRECTIONS:
        if (rules := behavior.get(_json_name(direction))) is None:
            result[direction] = None
            continue
        found = _with_go_names(rules, (*_RULES, _TOLERANCE) if has_tolerance else _RULES)
        if found["Policies"] is not None:
            found["Policies"] = [_with_go_names(policy, _POLICY) for policy in found["Policies"]]
        result[direction] = found
    return result


def _with_go_names(obj: Object, names: tuple[str, ...]) -> Object:
    return {name: obj.get(_json_name(name)) for name in names}


def _with_json_names(value: Any) -> Any:
    """Return *value* with field names that start with a lower-case letter, and without nulls."""
    if isinstance(value, dict):
        return {_json_name(name): _with_json_names(content) for name, content in value.items() if content is not None}
    return [_with_json_names(item) for item in value] if isinstance(value, list) else value


def _json_name(name: str) -> str:
    return name[:1].lower() + name[1:]


_VALUES = (("value", "Value"), ("averageValue", "AverageValue"), ("averageUtilization", "AverageUtilization"))


def _metric_to_v1(metric: Object, prefix: str = "target") -> Object:
    """Return a metric specification, or with the prefix ``current`` a metric status, in version 1."""
    kind = metric.get("type") or ""
    name = _json_name(kind)
    source = metric.get(name) or {}
    result: Object = {key: source[key] for key in ("name", "container") if key in source}
    if "metric" in source:
        result["metricName"] = source["metric"].get("name") or ""
        if (selector := source["metric"].get("selector")) is not None:
            result["metricSelector" if kind == "External" else "selector"] = selector
    if "describedObject" in source:
        result["target"] = source["describedObject"]
    amounts = source.get(prefix) or {}
    for field, ending in _VALUES:
        if amounts.get(field) is not None:
            own = "averageValue" if kind == "Object" and field == "averageValue" else f"{prefix}{ending}"
            result[own] = amounts[field]
    return {"type": kind, name: result}


def _metric_to_v2(metric: Object, prefix: str = "target") -> Object:
    """Return a metric of version 1 in version 2."""
    kind = metric.get("type") or ""
    name = _json_name(kind)
    source = metric.get(name) or {}
    result: Object = {key: source[key] for key in ("name", "container") if key in source}
    if "metricName" in source:
        result["metric"] = {"name": source["metricName"]}
        selector = source.get("metricSelector") or source.get("selector")
        if selector is not None:
            result["metric"]["selector"] = selector
    if kind == "Object" and isinstance(source.get("target"), dict):
        result["describedObject"] = source["target"]
    amounts: Object = {}
    for field, ending in _VALUES:
        own = "averageValue" if kind == "Object" and field == "averageValue" else f"{prefix}{ending}"
        if source.get(own) is not None:
            amounts[field] = source[own]
    if prefix == "target":
        chosen = next((field for field in ("averageUtilization", "averageValue") if field in amounts), "value")
        kinds = {"averageUtilization": "Utilization", "averageValue": "AverageValue", "value": "Value"}
        amounts = {"type": kinds[chosen], **amounts}
    return {"type": kind, name: {**result, prefix: amounts}}

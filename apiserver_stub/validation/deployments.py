"""Validation of Deployments and ReplicaSets."""

from __future__ import annotations

from typing import Any

from apiserver_stub.apimachinery.objects import Object
from apiserver_stub.apimachinery.status import Cause, forbidden_value, invalid_value, not_supported, required
from apiserver_stub.validation.disruption_budgets import validate_int_or_percent, validate_up_to_all
from apiserver_stub.validation.pod_options import PodOptions
from apiserver_stub.validation.pod_templates import (
    validate_always_restarted,
    validate_at_most,
    validate_collisions,
    validate_match,
    validate_not_negative,
    validate_pod_template,
    validate_template_selector,
)
from nodeagent.base.gointeger import parse_digits

_EMPTY = "empty selector is invalid for deployment"
_RECREATE, _ROLLING = "Recreate", "RollingUpdate"
_ABOVE_REPLICAS, _ABOVE_READY = "cannot be greater than status.replicas", "cannot be greater than readyReplicas"
_SET_COUNTS = (
    "replicas",
    "fullyLabeledReplicas",
    "readyReplicas",
    "availableReplicas",
    "observedGeneration",
    "terminatingReplicas",
)
_COUNTS = (
    "observedGeneration",
    "replicas",
    "updatedReplicas",
    "readyReplicas",
    "availableReplicas",
    "unavailableReplicas",
    "terminatingReplicas",
    "collisionCount",
)


def validate_deployment(deployment: Object, options: PodOptions) -> list[Cause]:
    """Return the errors in the specification of a Deployment."""
    spec = deployment["spec"]
    causes = validate_not_negative(spec, ("replicas",), "spec") + _validate_template(spec, options)
    causes += _validate_strategy(spec.get("strategy") or {}, "spec.strategy")
    causes += validate_not_negative(
        spec, ("minReadySeconds", "revisionHistoryLimit", "progressDeadlineSeconds"), "spec"
    )
    deadline = spec.get("progressDeadlineSeconds")
    if deadline is not None and deadline <= (spec.get("minReadySeconds") or 0):
        detail = "must be greater than minReadySeconds"
        causes.append(invalid_value("spec.progressDeadlineSeconds", deadline, detail))
    return causes


def validate_deployment_status(new: Object, old: Object) -> list[Cause]:
    """Return the errors in the status of a Deployment."""
    status = new.get("status") or {}
    causes = validate_not_negative(status, _COUNTS, "status")
    names = ("updatedReplicas", "readyReplicas", "availableReplicas")
    causes += validate_at_most(status, names, "replicas", "status", _ABOVE_REPLICAS)
    causes += validate_at_most(status, ("availableReplicas",), "readyReplicas", "status", _ABOVE_READY)
    return causes + validate_collisions(status, old.get("status") or {}, "status")


def validate_replica_set(replica_set: Object, options: PodOptions) -> list[Cause]:
    """Return the errors in the specification of a ReplicaSet."""
    spec = replica_set["spec"]
    return validate_not_negative(spec, ("replicas", "minReadySeconds"), "spec") + _validate_template(spec, options)


def validate_replication_controller(controller: Object, options: PodOptions) -> list[Cause]:
    """Return the errors in the specification of a ReplicationController."""
    spec = controller["spec"]
    causes = validate_not_negative(spec, ("minReadySeconds",), "spec")
    selector, template = spec.get("selector") or {}, spec.get("template")
    if not selector:
        causes.append(required("spec.selector"))
    causes += validate_not_negative(spec, ("replicas",), "spec")
    if template is None:
        return [*causes, required("spec.template")]
    causes += validate_match({"matchLabels": selector}, template, "spec.template")
    causes += validate_pod_template(template, "spec.template", options)
    return causes + validate_always_restarted(template, "spec.template", "ReplicationController")


def validate_replica_set_status(status: Object) -> list[Cause]:
    """Return the errors in the status of a ReplicaSet or ReplicationController."""
    causes = validate_not_negative(status, _SET_COUNTS, "status")
    names = ("fullyLabeledReplicas", "readyReplicas", "availableReplicas")
    causes += validate_at_most(status, names, "replicas", "status", _ABOVE_REPLICAS)
    return causes + validate_at_most(status, ("availableReplicas",), "readyReplicas", "status", _ABOVE_READY)


def _validate_template(spec: Object, options: PodOptions) -> list[Cause]:
    template = spec.get("template") or {}
    causes, usable = validate_template_selector(spec.get("selector"), "spec.selector", _EMPTY)
    if usable:
        causes += validate_match(spec.get("selector"), template, "spec.template")
        causes += validate_pod_template(template, "spec.template", options)
        causes += validate_always_restarted(template, "spec.template", "ReplicaSet")
    return causes


def _validate_strategy(strategy: Object, field: str) -> list[Cause]:
    kind, rolling = strategy.get("type") or "", strategy.get("rollingUpdate")
    if kind == _RECREATE:
        detail = f"may not be specified when strategy `type` is '{_RECREATE}'"
        return [] if rolling is None else [forbidden_value(f"{field}.rollingUpdate", detail)]
    if kind != _ROLLING:
        return [not_supported(field, kind, (_RECREATE, _ROLLING))]
    if rolling is None:
        return [required(f"{field}.rollingUpdate", "this should be defaulted and never be nil")]
    unavailable, surge = rolling.get("maxUnavailable", 0), rolling.get("maxSurge", 0)
    field = f"{field}.rollingUpdate"
    causes = validate_int_or_percent(unavailable, f"{field}.maxUnavailable")
    causes += validate_int_or_percent(surge, f"{field}.maxSurge")
    if is_zero(unavailable) and is_zero(surge):
        causes.append(invalid_value(f"{field}.maxUnavailable", unavailable, "may not be 0 when `maxSurge` is 0"))
    return causes + validate_up_to_all(unavailable, f"{field}.maxUnavailable")


def is_zero(value: Any) -> bool:
    """Return whether a number of pods or a percentage is zero, which invalid texts are too."""
    if isinstance(value, str):
        return not (value.endswith("%") and parse_digits(value[:-1]))
    return not value

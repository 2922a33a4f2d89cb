"""Validation of DaemonSets."""

from __future__ import annotations

from apiserver_stub.apimachinery.label_selectors import read_selector
from apiserver_stub.apimachinery.objects import Object
from apiserver_stub.apimachinery.status import Cause, invalid_value, not_supported, required
from apiserver_stub.validation.deployments import is_zero
from apiserver_stub.validation.disruption_budgets import validate_int_or_percent, validate_up_to_all
from apiserver_stub.validation.labels import validate_selector
from apiserver_stub.validation.pod_options import PodOptions
from apiserver_stub.validation.pod_templates import (
    validate_always_restarted,
    validate_collisions,
    validate_not_negative,
    validate_pod_template,
)

_EMPTY, _NO_MATCH = "empty selector is invalid for daemonset", "`selector` does not match template `labels`"
_ROLLING, _ON_DELETE = "RollingUpdate", "OnDelete"
_COUNTS = (
    "currentNumberScheduled",
    "numberMisscheduled",
    "desiredNumberScheduled",
    "numberReady",
    "observedGeneration",
    "updatedNumberScheduled",
    "numberAvailable",
    "numberUnavailable",
    "collisionCount",
)


def validate_daemon_set(daemon_set: Object, options: PodOptions, *, any_values: bool = False) -> list[Cause]:
    """Return the errors in the specification of a DaemonSet.

    :param any_values: do not validate the values of the selector.
    """
    spec = daemon_set["spec"]
    selector, template = spec.get("selector"), spec.get("template") or {}
    causes = validate_selector(selector, "spec.selector", any_values=any_values)
    labels = (template.get("metadata") or {}).get("labels") or {}
    if not causes and (selector is None or not read_selector(selector).matches(labels)):
        causes.append(invalid_value("spec.template.metadata.labels", labels, _NO_MATCH))
    if selector is not None and not (selector.get("matchLabels") or selector.get("matchExpressions")):
        causes.append(invalid_value("spec.selector", selector, _EMPTY))
    causes += validate_pod_template(template, "spec.template", options)
    causes += validate_always_restarted(template, "spec.template", "DaemonSet")
    causes += validate_not_negative(spec, ("minReadySeconds",), "spec")
    causes += _validate_strategy(spec.get("updateStrategy") or {}, "spec.updateStrategy")
    return causes + validate_not_negative(spec, ("revisionHistoryLimit",), "spec")


def has_invalid_selector(daemon_set: Object) -> bool:
    """Return whether the selector of a stored DaemonSet is invalid; its values are then not validated again."""
    return bool(validate_selector(daemon_set["spec"].get("selector"), ""))


def validate_daemon_set_status(new: Object, old: Object) -> list[Cause]:
    """Return the errors in the status of a DaemonSet."""
    status = new.get("status") or {}
    causes = validate_not_negative(status, _COUNTS, "status")
    return causes + validate_collisions(status, old.get("status") or {}, "status")


def _validate_strategy(strategy: Object, field: str) -> list[Cause]:
    kind, rolling = strategy.get("type") or "", strategy.get("rollingUpdate")
    if kind == _ON_DELETE:
        return []
    if kind != _ROLLING:
        return [not_supported(field, kind, (_ROLLING, _ON_DELETE))]
    field = f"{field}.rollingUpdate"
    if rolling is None:
        return [required(field)]
    unavailable, surge = rolling.get("maxUnavailable", 0), rolling.get("maxSurge", 0)
    causes = []
    for validate in (validate_int_or_percent, validate_up_to_all):
        causes += validate(unavailable, f"{field}.maxUnavailable") + validate(surge, f"{field}.maxSurge")
    if is_zero(unavailable) and is_zero(surge):
        causes.append(required(f"{field}.maxUnavailable", "cannot be 0 when maxSurge is 0"))
    elif not is_zero(unavailable) and not is_zero(surge):
        causes.append(invalid_value(f"{field}.maxSurge", surge, "may not be set when maxUnavailable is non-zero"))
    return causes

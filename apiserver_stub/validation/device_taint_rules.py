"""Validation of DeviceTaintRules, and of the taints of devices."""

from __future__ import annotations

from apiserver_stub.apimachinery.objects import Object
from apiserver_stub.apimachinery.status import Cause, invalid_each, not_supported, required, too_many
from apiserver_stub.validation.conditions import validate_conditions
from apiserver_stub.validation.device_names import validate_driver_name, validate_label, validate_pool_name
from apiserver_stub.validation.device_requests import TAINT_EFFECTS
from apiserver_stub.validation.labels import validate_label_name
from nodeagent.base.names import label_value_problems

_MAX_CONDITIONS = 8
_SELECTORS = {"driver": validate_driver_name, "pool": validate_pool_name, "device": validate_label}


def validate_taint_rule(spec: Object, old: Object | None = None) -> list[Cause]:
    """Return the errors in the specification of a rule.

    :param old: specification before an update; an invalid effect that it has already is permitted.
    """
    causes: list[Cause] = []
    selector = spec.get("deviceSelector") or {}
    for name, validate in _SELECTORS.items():
        if selector.get(name) is not None:
            causes += validate(selector[name], f"spec.deviceSelector.{name}")
    taint = spec.get("taint") or {}
    before = ((old or {}).get("taint") or {}).get("effect")
    return causes + validate_taint(taint, "spec.taint", checks_effect=old is None or before != taint.get("effect"))


def validate_taint_rule_status(status: Object) -> list[Cause]:
    """Return the errors in the status of a rule."""
    conditions = status.get("conditions") or []
    causes = validate_conditions(conditions, "status.conditions")
    if len(conditions) > _MAX_CONDITIONS:
        causes.append(too_many("status.conditions", len(conditions), _MAX_CONDITIONS))
    return causes


def validate_taint(taint: Object, field: str, *, checks_effect: bool = True) -> list[Cause]:
    """Return the errors in a taint of a device."""
    causes = validate_label_name(taint.get("key") or "", f"{field}.key")
    if value := taint.get("value"):
        causes += invalid_each(f"{field}.value", value, label_value_problems(value))
    if not checks_effect:
        return causes
    if not (effect := taint.get("effect") or ""):
        causes.append(required(f"{field}.effect"))
    elif effect not in TAINT_EFFECTS:
        causes.append(not_supported(f"{field}.effect", effect, TAINT_EFFECTS))
    return causes

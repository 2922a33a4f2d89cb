"""Validation of pod disruption budgets and their status."""

from __future__ import annotations

import re
from typing import Any

from apiserver_stub.apimachinery.objects import Object
from apiserver_stub.apimachinery.status import Cause, invalid_value, not_supported, quote
from apiserver_stub.validation.conditions import validate_conditions
from apiserver_stub.validation.labels import validate_selector
from nodeagent.base.gointeger import parse_digits

IF_HEALTHY, ALWAYS = "IfHealthyBudget", "AlwaysAllow"
"""Policies for the eviction of pods that are not healthy."""
COUNTS = ("disruptionsAllowed", "currentHealthy", "desiredHealthy", "expectedPods")
"""Numbers of pods in a status."""

_LIMITS = ("minAvailable", "maxUnavailable")
_PERCENT = re.compile(r"[0-9]+%")
_PERCENT_RULE = (
    "a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  or '93%', regex used for "
    "validation is '[0-9]+%')"
)
_NEGATIVE = "must be greater than or equal to 0"


def validate_budget(budget: Object, *, any_values: bool = False) -> list[Cause]:
    """Return the errors in the specification of a budget.

    :param any_values: do not validate the values of the selector.
    """
    spec = budget.get("spec") or {}
    given = [name for name in _LIMITS if spec.get(name) is not None]
    causes = []
    if len(given) > 1:
        causes.append(invalid_value("spec", spec, "minAvailable and maxUnavailable cannot be both set"))
    for name in given:
        causes += validate_positive_or_percent(spec[name], f"spec.{name}")
    causes += validate_selector(spec.get("selector"), "spec.selector", any_values=any_values)
    policy = spec.get("unhealthyPodEvictionPolicy")
    if policy is not None and policy not in (ALWAYS, IF_HEALTHY):
        causes.append(not_supported("spec.unhealthyPodEvictionPolicy", policy, (ALWAYS, IF_HEALTHY)))
    return causes


def validate_budget_status(budget: Object) -> list[Cause]:
    """Return the errors in the status of a budget."""
    status = budget.get("status") or {}
    causes = validate_conditions(status.get("conditions") or (), "status.conditions")
    for name in COUNTS:
        if (value := status.get(name) or 0) < 0:
            causes.append(invalid_value(f"status.{name}", value, _NEGATIVE))
    return causes


def has_invalid_selector(budget: Object) -> bool:
    """Return whether the selector of a stored budget is invalid; its values are then not validated again."""
    return bool(validate_selector((budget.get("spec") or {}).get("selector"), ""))


def validate_positive_or_percent(value: Any, field: str) -> list[Cause]:
    """Return the errors in a number of pods, or in a percentage up to 100%."""
    return validate_int_or_percent(value, field) + validate_up_to_all(value, field)


def validate_int_or_percent(value: Any, field: str) -> list[Cause]:
    """Return the errors in a number of pods, or in a percentage."""
    if not isinstance(value, str):
        return [invalid_value(field, value, _NEGATIVE)] if value < 0 else []
    return [] if _PERCENT.fullmatch(value) else [_invalid_text(value, field, _PERCENT_RULE)]


def validate_up_to_all(value: Any, field: str) -> list[Cause]:
    """Return the error in a percentage above 100%."""
    if not isinstance(value, str) or not _PERCENT.fullmatch(value):
        return []
    share = parse_digits(value[:-1])
    if share is not None and share <= 100:
        return []
    return [_invalid_text(value, field, "must not be greater than 100%")]


def _invalid_text(value: str, field: str, detail: str) -> Cause:
    shown = f"intstr.IntOrString{{Type:1, IntVal:0, StrVal:{quote(value)}}}"
    return Cause("FieldValueInvalid", f"Invalid value: {shown}: {detail}", field)

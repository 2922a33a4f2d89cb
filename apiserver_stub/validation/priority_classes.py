"""Validation of priority classes."""

from __future__ import annotations

from collections.abc import Mapping

from apiserver_stub.apimachinery.objects import Object
from apiserver_stub.apimachinery.status import Cause, forbidden_value, invalid_value, not_supported, required

HIGHEST_USER_PRIORITY = 1_000_000_000
SYSTEM_PRIORITIES: Mapping[str, int] = {
    "system-cluster-critical": 2_000_000_000,
    "system-node-critical": 2_000_001_000,
}
"""Values of the priority classes that every cluster has."""

_SYSTEM_PREFIX = "system-"
_PREEMPTION_POLICIES = ("PreemptLowerPriority", "Never")


def validate_priority_class(priority_class: Object) -> list[Cause]:
    """Return the errors in a new priority class."""
    name, value = priority_class["metadata"].get("name") or "", priority_class["value"]
    causes = []
    if name.startswith(_SYSTEM_PREFIX):
        if problem := _system_problem(name, value, bool(priority_class.get("globalDefault"))):
            detail = f"priority class names with '{_SYSTEM_PREFIX}' prefix are reserved for system use only. error: "
            causes.append(forbidden_value("metadata.name", detail + problem))
    elif value > HIGHEST_USER_PRIORITY:
        detail = f"maximum allowed value of a user defined priority is {HIGHEST_USER_PRIORITY}"
        causes.append(forbidden_value("value", detail))
    policy = priority_class.get("preemptionPolicy")
    return causes if policy is None else causes + validate_preemption_policy(policy, "preemptionPolicy")


def validate_priority_class_update(new: Object, old: Object) -> list[Cause]:
    """Return the errors in the change of a priority class."""
    causes = []
    if new["value"] != (old.get("value") or 0):
        causes.append(forbidden_value("value", "may not be changed in an update."))
    if new.get("preemptionPolicy") != old.get("preemptionPolicy"):
        causes.append(invalid_value("preemptionPolicy", new.get("preemptionPolicy"), "field is immutable"))
    return causes


def validate_preemption_policy(policy: str, field: str) -> list[Cause]:
    """Return the error in a policy that states whether pods preempt others."""
    if policy in _PREEMPTION_POLICIES:
        return []
    return [not_supported(field, policy, _PREEMPTION_POLICIES) if policy else required(field)]


def _system_problem(name: str, value: int, is_default: bool) -> str:
    """Return why a class with a reserved name is not one of those that every cluster has."""
    if (expected := SYSTEM_PRIORITIES.get(name)) is None:
        return f"{name} is not a known system priority class"
    if value != expected:
        return f"value of {name} PriorityClass must be {expected}"
    return f"globalDefault of {name} PriorityClass must be false" if is_default else ""

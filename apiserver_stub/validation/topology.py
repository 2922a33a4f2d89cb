"""Validation of topology spread constraints."""

from __future__ import annotations

from collections.abc import Sequence

from apiserver_stub.apimachinery.objects import Object
from apiserver_stub.apimachinery.status import Cause, duplicate, forbidden_value, invalid_value, not_supported, required
from apiserver_stub.validation.affinity import validate_label_keys
from apiserver_stub.validation.labels import validate_label_name, validate_selector
from apiserver_stub.validation.pod_options import PodOptions

_ACTIONS, _POLICIES = ("DoNotSchedule", "ScheduleAnyway"), ("Honor", "Ignore")
_POSITIVE = "must be greater than zero"


def validate_spread_constraints(constraints: Sequence[Object], field: str, options: PodOptions) -> list[Cause]:
    """Return the errors in the topology spread constraints of a pod."""
    causes = []
    kinds = [(item.get("topologyKey") or "", item.get("whenUnsatisfiable") or "") for item in constraints]
    for index, constraint in enumerate(constraints):
        path = f"{field}[{index}]"
        key, action = kinds[index]
        if (skew := constraint.get("maxSkew") or 0) <= 0:
            causes.append(invalid_value(f"{path}.maxSkew", skew, _POSITIVE))
        if not key:
            causes.append(required(f"{path}.topologyKey", "can not be empty"))
        if action not in _ACTIONS:
            causes.append(not_supported(f"{path}.whenUnsatisfiable", action, _ACTIONS))
        if kinds[index] in kinds[index + 1 :]:
            causes.append(duplicate(f"{path}.{{topologyKey, whenUnsatisfiable}}", f"{{{key}, {action}}}"))
        causes += _validate_domains(constraint.get("minDomains"), action, f"{path}.minDomains")
        for name in ("nodeAffinityPolicy", "nodeTaintsPolicy"):
            if (policy := constraint.get(name)) is not None and policy not in _POLICIES:
                causes.append(not_supported(f"{path}.{name}", policy, _POLICIES))
        selector = constraint.get("labelSelector")
        if "MatchLabelKeysInPodTopologySpreadSelectorMerge" in options.features:
            causes += validate_label_keys(constraint, path)
        elif keys := constraint.get("matchLabelKeys"):
            causes += _validate_label_keys(keys, selector, f"{path}.matchLabelKeys")
        if not options.any_spread_selectors:
            causes += validate_selector(selector, f"{path}.labelSelector")
    return causes


def _validate_domains(number: int | None, action: str, field: str) -> list[Cause]:
    if number is None:
        return []
    causes = [] if number > 0 else [invalid_value(field, number, _POSITIVE)]
    if action != "DoNotSchedule":
        detail = f"can only use minDomains if whenUnsatisfiable=DoNotSchedule, not {action}"
        causes.append(invalid_value(field, number, detail))
    return causes


def _validate_label_keys(keys: Sequence[str], selector: Object | None, field: str) -> list[Cause]:
    causes, selected = [], set()
    if selector is None:
        causes.append(forbidden_value(field, "must not be specified when labelSelector is not set"))
    else:
        selected = {*(selector.get("matchLabels") or ())}
        selected |= {item.get("key") or "" for item in selector.get("matchExpressions") or ()}
    for index, key in enumerate(keys):
        causes += validate_label_name(key, f"{field}[{index}]")
        if key in selected:
            detail = "exists in both matchLabelKeys and labelSelector"
            causes.append(invalid_value(f"{field}[{index}]", key, detail))
    return causes

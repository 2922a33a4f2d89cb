"""Validation of node selectors and of node and pod affinity."""

from __future__ import annotations

from collections.abc import Sequence

from apiserver_stub.apimachinery.objects import Object
from apiserver_stub.apimachinery.status import Cause, forbidden_value, invalid_each, invalid_value, required
from apiserver_stub.validation.labels import validate_label_name, validate_selector
from nodeagent.base.names import label_problems, label_value_problems, subdomain_problems

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
_NOT_AN_OPERATOR = "not a valid selector operator"
_WEIGHT_RULE = "must be in the range 1-100"


def validate_affinity(affinity: Object, field: str, *, any_values: bool = False) -> list[Cause]:
    """Return the errors in the affinity of a pod.

    :param any_values: do not validate the values of label selectors.
    """
    causes = []
    if node := affinity.get("nodeAffinity"):
        causes += _validate_node_affinity(node, f"{field}.nodeAffinity")
    for name in ("podAffinity", "podAntiAffinity"):
        if pods := affinity.get(name):
            for index, term in enumerate(pods.get(REQUIRED) or ()):
                path = f"{field}.{name}.{REQUIRED}[{index}]"
                causes += _validate_pod_affinity_term(term, path, any_values=any_values)
            for index, weighted in enumerate(pods.get(PREFERRED) or ()):
                path = f"{field}.{name}.{PREFERRED}[{index}]"
                causes += _validate_weight(weighted, path)
                term = weighted.get("podAffinityTerm") or {}
                causes += _validate_pod_affinity_term(term, f"{path}.podAffinityTerm", any_values=any_values)
    return causes


def validate_node_selector(selector: Object, field: str) -> list[Cause]:
    """Return the errors in a selector of nodes, which needs at least one term."""
    terms = selector.get("nodeSelectorTerms")
    if not terms:
        return [required(f"{field}.nodeSelectorTerms", "must have at least one node selector term")]
    causes = []
    for index, term in enumerate(terms):
        causes += validate_node_selector_term(term, f"{field}.nodeSelectorTerms[{index}]")
    return causes


def validate_node_selector_term(term: Object, field: str) -> list[Cause]:
    """Return the errors in one term of a selector of nodes."""
    causes = []
    for index, requirement in enumerate(term.get("matchExpressions") or ()):
        causes += _validate_label_requirement(requirement, f"{field}.matchExpressions[{index}]")
    for index, requirement in enumerate(term.get("matchFields") or ()):
        causes += _validate_field_requirement(requirement, f"{field}.matchFields[{index}]")
    return causes


def validate_node_label_values(selector: Object | None, field: str) -> list[Cause]:
    """Return the errors in the label values of a selector of nodes, which releases before 1.34 do not validate."""
    causes = []
    for index, term in enumerate((selector or {}).get("nodeSelectorTerms") or ()):
        for number, requirement in enumerate(term.get("matchExpressions") or ()):
            path = f"{field}.nodeSelectorTerms[{index}].matchExpressions[{number}].values"
            for position, value in enumerate(requirement.get("values") or ()):
                causes += invalid_each(f"{path}[{position}]", value, label_value_problems(value))
    return causes


def required_node_selector(affinity: Object) -> Object | None:
    """Return the selector of required node affinity."""
    found: Object | None = (affinity.get("nodeAffinity") or {}).get(REQUIRED)
    return found


def validate_affinity_term_selectors(term: Object, field: str, *, any_values: bool) -> list[Cause]:
    """Return the errors in the label selectors of a pod affinity term."""
    causes = validate_selector(term.get("labelSelector"), f"{field}.labelSelector", any_values=any_values)
    namespaces = term.get("namespaceSelector")
    return causes + validate_selector(namespaces, f"{field}.namespaceSelector", any_values=any_values)


def affinity_terms(affinity: Object) -> list[Object]:
    """Return every term of pod affinity and anti-affinity."""
    found: list[Object] = []
    for name in ("podAffinity", "podAntiAffinity"):
        pods = affinity.get(name) or {}
        found += pods.get(REQUIRED) or ()
        found += [item.get("podAffinityTerm") or {} for item in pods.get(PREFERRED) or ()]
    return found


def _validate_node_affinity(affinity: Object, field: str) -> list[Cause]:
    causes = []
    if (selector := affinity.get(REQUIRED)) is not None:
        causes += validate_node_selector(selector, f"{field}.{REQUIRED}")
    for index, term in enumerate(affinity.get(PREFERRED) or ()):
        path = f"{field}.{PREFERRED}[{index}]"
        causes += _validate_weight(term, path)
        causes += validate_node_selector_term(term.get("preference") or {}, f"{path}.preference")
    return causes


def _validate_weight(term: Object, field: str) -> list[Cause]:
    weight = term.get("weight") or 0
    return [] if 1 <= weight <= 100 else [invalid_value(f"{field}.weight", weight, _WEIGHT_RULE)]


def _validate_label_requirement(requirement: Object, field: str) -> list[Cause]:
    operator, values = requirement.get("operator") or "", requirement.get("values") or ()
    causes = []
    match operator:
        case "In" | "NotIn":
            if not values:
                detail = "must be specified when `operator` is 'In' or 'NotIn'"
                causes.append(required(f"{field}.values", detail))
        case "Exists" | "DoesNotExist":
            if values:
                detail = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
                causes.append(forbidden_value(f"{field}.values", detail))
        case "Gt" | "Lt":
            if len(values) != 1:
                detail = "must be specified single value when `operator` is 'Lt' or 'Gt'"
                causes.append(required(f"{field}.values", detail))
        case _:
            causes.append(invalid_value(f"{field}.operator", operator, _NOT_AN_OPERATOR))
    return causes + validate_label_name(requirement.get("key") or "", f"{field}.key")


def _validate_field_requirement(requirement: Object, field: str) -> list[Cause]:
    operator, values = requirement.get("operator") or "", requirement.get("values") or ()
    causes = []
    if operator not in ("In", "NotIn"):
        causes.append(invalid_value(f"{field}.operator", operator, _NOT_AN_OPERATOR))
    elif len(values) != 1:
        detail = "must be only one value when `operator` is 'In' or 'NotIn' for node field selector"
        causes.append(required(f"{field}.values", detail))
    key = requirement.get("key") or ""
    if key != "metadata.name":
        return [*causes, invalid_value(f"{field}.key", key, "not a valid field selector key")]
    for index, value in enumerate(values):
        causes += invalid_each(f"{field}.values[{index}]", value, subdomain_problems(value))
    return causes


def _validate_pod_affinity_term(term: Object, field: str, *, any_values: bool) -> list[Cause]:
    causes = validate_affinity_term_selectors(term, field, any_values=any_values)
    for name in term.get("namespaces") or ():
        causes += invalid_each(f"{field}.namespace", name, label_problems(name))
    causes += validate_label_keys(term, field)
    key = term.get("topologyKey") or ""
    if not key:
        causes.append(required(f"{field}.topologyKey", "can not be empty"))
    return causes + validate_label_name(key, f"{field}.topologyKey")


def validate_label_keys(term: Object, field: str) -> list[Cause]:
    """Return the errors in the label keys of a term or constraint, which creation adds to its selector."""
    match_keys, mismatch_keys = term.get("matchLabelKeys") or (), term.get("mismatchLabelKeys") or ()
    if not match_keys and not mismatch_keys:
        return []
    selector = term.get("labelSelector")
    causes = []
    for name, keys in (("matchLabelKeys", match_keys), ("mismatchLabelKeys", mismatch_keys)):
        if keys and selector is None:
            causes.append(forbidden_value(f"{field}.{name}", "must not be specified when labelSelector is not set"))
        elif keys:
            for index, key in enumerate(keys):
                causes += validate_label_name(key, f"{field}.{name}[{index}]")
    if selector is not None:
        causes += _validate_selected_keys(selector, match_keys, field)
    for index, key in enumerate(match_keys):
        if key in mismatch_keys:
            detail = "exists in both matchLabelKeys and mismatchLabelKeys"
            causes.append(invalid_value(f"{field}.matchLabelKeys[{index}]", key, detail))
    return causes


def _validate_selected_keys(selector: Object, keys: Sequence[str], field: str) -> list[Cause]:
    """Return an error for every key that the client selects too: creation adds one expression for each key."""
    positions = {key: index for index, key in enumerate(keys)}
    selected = set(selector.get("matchLabels") or ())
    causes = []
    for expression in selector.get("matchExpressions") or ():
        key = expression.get("key") or ""
        if key in positions and key in selected:
            detail = "exists in both matchLabelKeys and labelSelector"
            causes.append(invalid_value(f"{field}[{positions[key]}]", key, detail))
        selected.add(key)
    return causes

"""Validation of labels and label selectors."""

from __future__ import annotations

from typing import Any

from apiserver_stub.apimachinery.objects import Object
from apiserver_stub.apimachinery.status import Cause, forbidden_value, invalid_each, invalid_value, required
from nodeagent.base.names import label_value_problems, qualified_name_problems

_WITH_VALUES, _WITHOUT_VALUES = ("In", "NotIn"), ("Exists", "DoesNotExist")


def validate_label_name(name: str, field: str) -> list[Cause]:
    """Return the errors in the key of a label."""
    return invalid_each(field, name, qualified_name_problems(name))


def validate_labels(labels: Any, field: str) -> list[Cause]:
    """Return the errors in a map of labels."""
    causes = []
    for key, value in (labels or {}).items():
        causes += invalid_each(field, key, qualified_name_problems(key))
        causes += invalid_each(field, value, label_value_problems(value))
    return causes


def validate_selector(selector: Object | None, field: str, *, any_values: bool = False) -> list[Cause]:
    """Return the errors in a label selector; ``None`` is valid.

    :param any_values: do not validate values, for objects that were stored with invalid ones.
    """
    if not selector:
        return []
    causes = validate_labels(selector.get("matchLabels"), f"{field}.matchLabels")
    for index, term in enumerate(selector.get("matchExpressions") or ()):
        causes += _validate_expression(term, f"{field}.matchExpressions[{index}]", any_values=any_values)
    return causes


def _validate_expression(term: Object, field: str, *, any_values: bool) -> list[Cause]:
    operator, values = term.get("operator") or "", term.get("values") or []
    causes = []
    if operator in _WITH_VALUES:
        if not values:
            causes.append(required(f"{field}.values", "must be specified when `operator` is 'In' or 'NotIn'"))
    elif operator in _WITHOUT_VALUES:
        if values:
            detail = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
            causes.append(forbidden_value(f"{field}.values", detail))
    else:
        causes.append(invalid_value(f"{field}.operator", operator, "not a valid selector operator"))
    causes += validate_label_name(term.get("key") or "", f"{field}.key")
    if not any_values:
        for index, value in enumerate(values):
            causes += invalid_each(f"{field}.values[{index}]", value, label_value_problems(value))
    return causes

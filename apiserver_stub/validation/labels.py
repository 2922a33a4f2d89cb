"""Validation of labels and label selectors."""

from __future__ import annotations

from typing import Any

from apiserver_stub.objects import Object
from apiserver_stub.status import Cause, invalid_value, required
from apiserver_stub.validation.names import label_value_problems, qualified_name_problems

_WITH_VALUES, _WITHOUT_VALUES = ("In", "NotIn"), ("Exists", "DoesNotExist")


def validate_labels(labels: Any, field: str) -> list[Cause]:
    """Return what is wrong with a map of labels."""
    causes = []
    for key, value in (labels or {}).items():
        causes += [invalid_value(field, key, problem) for problem in qualified_name_problems(key)]
        causes += [invalid_value(field, value, problem) for problem in label_value_problems(value)]
    return causes


def validate_selector(selector: Object, field: str) -> list[Cause]:
    """Return what is wrong with a selector of labels as objects hold it."""
    causes = validate_labels(selector.get("matchLabels"), f"{field}.matchLabels")
    for index, term in enumerate(selector.get("matchExpressions") or ()):
        causes += _validate_expression(term, f"{field}.matchExpressions[{index}]")
    return causes


def _validate_expression(term: Object, where: str) -> list[Cause]:
    key, operator, values = term.get("key") or "", term.get("operator") or "", term.get("values") or []
    causes = []
    if operator in _WITH_VALUES and not values:
        causes.append(required(f"{where}.values", "must be specified when `operator` is 'In' or 'NotIn'"))
    elif operator in _WITHOUT_VALUES and values:
        detail = "Forbidden: may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
        causes.append(Cause("FieldValueForbidden", detail, f"{where}.values"))
    elif operator not in (*_WITH_VALUES, *_WITHOUT_VALUES):
        causes.append(invalid_value(f"{where}.operator", operator, "not a valid selector operator"))
    causes += [invalid_value(f"{where}.key", key, problem) for problem in qualified_name_problems(key)]
    for index, value in enumerate(values):
        causes += [invalid_value(f"{where}.values[{index}]", value, item) for item in label_value_problems(value)]
    return causes

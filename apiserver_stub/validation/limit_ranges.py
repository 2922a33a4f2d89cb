"""Validation of limit ranges: types, names of resources, and amounts that contradict each other."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from apiserver_stub.apimachinery.objects import Object
from apiserver_stub.apimachinery.status import Cause, duplicate, forbidden_value, invalid_each, invalid_value, required
from apiserver_stub.validation.quantities import (
    amount,
    is_overcommit_allowed,
    validate_container_resource_name,
    validate_resource_name,
)
from nodeagent.base.names import qualified_name_problems
from nodeagent.base.quantity import Quantity

_TYPES = ("Pod", "Container", "PersistentVolumeClaim")
_ONE = Quantity(1)
_MAX_MILLI_VALUE = (1 << 63) // 1000
"""Largest amount whose thousandths fit into 64 bits."""
_NOT_FOR_PODS = "may not be specified when `type` is 'Pod'"
_LESS = (
    ("min", "max", "min", "min", "min value {} is greater than max value {}"),
    (
        "min",
        "defaultRequest",
        "defaultRequest",
        "defaultRequest",
        "min value {} is greater than default request value {}",
    ),
    (
        "defaultRequest",
        "max",
        "defaultRequest",
        "defaultRequest",
        "default request value {} is greater than max value {}",
    ),
    (
        "defaultRequest",
        "default",
        "defaultRequest",
        "defaultRequest",
        "default request value {} is greater than default limit value {}",
    ),
    ("min", "default", "default", "min", "min value {} is greater than default value {}"),
    ("default", "max", "default", "max", "default value {} is greater than max value {}"),
)
"""Field of the smaller and of the larger amount, field that the error names, field whose value it shows, its text."""

Amounts = Mapping[str, str]


def validate_limit_range(limit_range: Object, label_domain: str) -> list[Cause]:
    """Return the errors in the limits of a limit range; resources in *label_domain* are native."""
    causes: list[Cause] = []
    types: set[str] = set()
    for index, item in enumerate((limit_range.get("spec") or {}).get("limits") or ()):
        field, kind = f"spec.limits[{index}]", item.get("type") or ""
        causes += _validate_type(kind, f"{field}.type")
        if kind in types:
            causes.append(duplicate(f"{field}.type", kind))
        types.add(kind)
        causes += _validate_item(item, kind, field, label_domain)
    return causes


def _validate_type(kind: str, field: str) -> list[Cause]:
    if kind in _TYPES:
        return []
    problems = qualified_name_problems(kind)
    if not problems and "/" not in kind:
        problems = ["must be a standard limit type or fully qualified"]
    return invalid_each(field, kind, problems)


def _validate_item(item: Object, kind: str, field: str, label_domain: str) -> list[Cause]:
    amounts: dict[str, Amounts] = {}
    causes = []
    for member in ("max", "min", "default", "defaultRequest", "maxLimitRequestRatio"):
        given: Amounts = item.get(member) or {}
        if kind == "Pod" and member.startswith("default"):
            if given:
                causes.append(forbidden_value(f"{field}.{member}", _NOT_FOR_PODS))
            given = {}
        for name in given:
            path = f"{field}.{member}[{name}]"
            if kind in ("Pod", "Container"):
                causes += validate_container_resource_name(name, path, label_domain)
            else:
                causes += validate_resource_name(name, path)
        amounts[member] = given
    if kind == "PersistentVolumeClaim" and "storage" not in amounts["min"] and "storage" not in amounts["max"]:
        detail = "either minimum or maximum storage value is required, but neither was provided"
        causes.append(required(f"{field}.limits", detail))
    for name in dict.fromkeys(name for given in amounts.values() for name in given):
        given_amounts = {member: amount(given[name]) for member, given in amounts.items() if name in given}
        causes += _contradictions(name, given_amounts, field, label_domain)
    return causes


def _contradictions(name: str, amounts: Mapping[str, Quantity], field: str, label_domain: str) -> Iterator[Cause]:
    for low, high, member, shown, detail in _LESS:
        if low in amounts and high in amounts and amounts[low] > amounts[high]:
            text = detail.format(amounts[low], amounts[high])
            yield invalid_value(f"{field}.{member}[{name}]", str(amounts[shown]), text)
    if (ratio := amounts.get("maxLimitRequestRatio")) is not None:
        yield from _ratio_causes(ratio, amounts, f"{field}.maxLimitRequestRatio[{name}]")
    default, request = amounts.get("default"), amounts.get("defaultRequest")
    if default is None or request is None or default == request or is_overcommit_allowed(name, label_domain):
        return
    text = f"default value {default} must equal to defaultRequest value {request} in {name}"
    yield invalid_value(f"{field}.defaultRequest[{name}]", str(request), text)


def _ratio_causes(ratio: Quantity, amounts: Mapping[str, Quantity], field: str) -> Iterator[Cause]:
    if ratio < _ONE:
        yield invalid_value(field, str(ratio), f"ratio {ratio} is less than 1")
    if "min" not in amounts or "max" not in amounts:
        return
    values = [quantity.value() for quantity in (ratio, amounts["min"], amounts["max"])]
    given, least, most = map(float, values)
    if all(value < _MAX_MILLI_VALUE for value in values):
        given = ratio.milli_value() / 1000
        least, most = float(amounts["min"].milli_value()), float(amounts["max"].milli_value())
    limit = most / least if least else float("nan") if not most else float("inf") if most > 0 else float("-inf")
    if given > limit:
        yield invalid_value(field, str(ratio), f"ratio {ratio} is greater than max/min = {limit:f}")

"""Validation of the capacities of devices, and of the policies for requests of them."""

from __future__ import annotations

from apiserver_stub.apimachinery.objects import Object
from apiserver_stub.apimachinery.status import Cause, duplicate, forbidden_value, invalid_value, required, too_many
from apiserver_stub.validation.quantities import amount
from nodeagent.base.quantity import Quantity

_MAX_VALUES = 10


def validate_capacity(capacity: Object, field: str, *, shared: bool) -> list[Cause]:
    """Return the errors in a capacity of a device, which several claims may share if *shared*."""
    policy = capacity.get("requestPolicy")
    if policy is None:
        return []
    path = f"{field}.requestPolicy"
    if not shared:
        return [forbidden_value(path, "allowMultipleAllocations must be true")]
    values, limits, default = policy.get("validValues"), policy.get("validRange"), policy.get("default")
    total = amount(capacity.get("value") or "0")
    if values and limits is not None:
        detail = 'exactly one policy can be specified, cannot specify "validValues" and "validRange" at the same time'
        return [forbidden_value(path, detail)]
    if values:
        if default is None:
            return [required(f"{path}.default", "required when validValues is defined")]
        return _validate_values(values, amount(default), total, f"{path}.validValues")
    if limits is not None:
        if default is None:
            return [required(f"{path}.default", "required when validRange is defined")]
        return _validate_range(limits, amount(default), total, f"{path}.validRange")
    return []


def _validate_values(texts: list[str], default: Quantity, total: Quantity, field: str) -> list[Cause]:
    values = [amount(text) for text in texts]
    causes = [
        invalid_value(f"{field}[{index}]", texts[index], "values must be sorted in ascending order")
        for index in range(1, len(values))
        if values[index - 1].nanos > values[index].nanos
    ]
    if len(values) > _MAX_VALUES:
        return [*causes, too_many(field, len(values), _MAX_VALUES)]
    for index, value in enumerate(values):
        if value.nanos > total.nanos:
            detail = f"option is larger than capacity value: {total}"
            causes.append(invalid_value(f"{field}[{index}]", texts[index], detail))
        if any(value.value() == other.value() for other in values[:index]):
            causes.append(duplicate(f"{field}[{index}]", texts[index]))
    if all(value.nanos != default.nanos for value in values):
        detail = "default value is not valid according to the requestPolicy"
        causes.append(invalid_value(field, str(default), detail))
    return causes


def _validate_range(limits: Object, default: Quantity, total: Quantity, field: str) -> list[Cause]:
    if limits.get("min") is None:
        return [required(f"{field}.min", "required when validRange is defined")]
    low, causes = amount(limits["min"]), list[Cause]()
    high = None if limits.get("max") is None else amount(limits["max"])
    step = None if limits.get("step") is None else amount(limits["step"])
    if low.nanos > total.nanos:
        causes.append(invalid_value(f"{field}.min", str(low), f"min is larger than capacity value: {total}"))
    if default.nanos < low.nanos:
        causes.append(invalid_value(f"{field}.min", str(default), f"default is less than min: {low}"))
    if high is not None:
        path = f"{field}.max"
        if low.nanos > high.nanos:
            causes.append(invalid_value(path, str(low), f"min is larger than max: {high}"))
        if high.nanos > total.nanos:
            causes.append(invalid_value(path, str(high), f"max is larger than capacity value: {total}"))
        if default.nanos > high.nanos:
            causes.append(invalid_value(path, str(default), f"default is more than max: {high}"))
    if step is not None:
        path = f"{field}.step"
        if low.nanos + step.nanos > total.nanos:
            detail = f"one step {step} is larger than capacity value: {total}"
            causes.append(invalid_value(path, str(step), detail))
        for value in (default, high):
            if value is not None and (step.nanos <= 0 or (value.nanos - low.nanos) % step.nanos):
                detail = f"value is not a multiple of a given step ({step}) from ({low})"
                causes.append(invalid_value(path, str(value), detail))
    return causes

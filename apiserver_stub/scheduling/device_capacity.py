"""Capacity of a device that a request consumes, by the request policy of the device. No I/O."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from apiserver_stub.apimachinery.objects import Object
from nodeagent.base.quantity import Format, Quantity

Amounts = Mapping[str, int]
"""Consumed amounts in billionths, by name of the capacity."""


def consumed_capacity(requests: Mapping[str, Any], capacities: Mapping[str, Object]) -> dict[str, Quantity] | None:
    """Return the amount of each capacity that a device would provide for *requests*.

    :returns: ``None`` if a requested capacity does not exist, or if a policy does not permit the amount.
    """
    if any(name not in capacities for name in requests):
        return None
    found: dict[str, Quantity] = {}
    for name, capacity in capacities.items():
        policy = capacity.get("requestPolicy") or {}
        amount = _provided(requests.get(name), capacity, policy)
        if not _is_permitted(amount, policy):
            return None
        found[name] = amount
    return found


def suffices(capacities: Mapping[str, Object], amounts: Mapping[str, Quantity], used: Amounts) -> bool:
    """Return whether the capacities suffice for *amounts* in addition to those *used*."""
    return all(
        used.get(name, 0) + amount.nanos <= _quantity(capacities[name].get("value")).nanos
        for name, amount in amounts.items()
    )


def _provided(requested: Any, capacity: Object, policy: Object) -> Quantity:
    """Return the amount for a request: at least the requested one, by default that of the policy or all."""
    if requested is None:
        return _quantity(policy["default"] if policy.get("default") is not None else capacity.get("value"))
    amount, limits, values = _quantity(requested), policy.get("validRange") or {}, policy.get("validValues")
    if limits.get("min") is not None:
        return _in_range(amount, limits)
    if values:
        return next((value for value in map(_quantity, values) if amount.nanos <= value.nanos), amount)
    return amount


def _in_range(amount: Quantity, limits: Object) -> Quantity:
    low = _quantity(limits["min"])
    if amount.nanos < low.nanos:
        return low
    if limits.get("step") is None:
        return amount
    step = _quantity(limits["step"]).value()
    steps = -(-(amount.value() - low.value()) // step)
    return Quantity(low.value() + steps * step, format=Format.BINARY)


def _is_permitted(amount: Quantity, policy: Object) -> bool:
    limits, values = policy.get("validRange"), policy.get("validValues")
    if policy.get("default") is not None and amount.nanos == _quantity(policy["default"]).nanos:
        return True
    if limits is not None:
        if limits.get("max") is not None and amount.nanos > _quantity(limits["max"]).nanos:
            return False
        if limits.get("step") is not None:
            distance = amount.value() - _quantity(limits.get("min")).value()
            return distance % _quantity(limits["step"]).value() == 0
        return True
    return not values or any(amount.nanos == _quantity(value).nanos for value in values)


def _quantity(value: Any) -> Quantity:
    return Quantity.parse(str(value or "0"))

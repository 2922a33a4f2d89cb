"""Binding conditions: reports of drivers that pods wait for before they are bound. No I/O."""

from __future__ import annotations

from datetime import datetime, timedelta
from enum import Enum

from apiserver_stub.apimachinery import objects
from apiserver_stub.apimachinery.objects import Object, dig

TIMEOUT = timedelta(minutes=10)
"""Time after the allocation in which the conditions must become true."""


class BindingState(Enum):
    """State of the binding conditions of a claim."""

    READY = "ready"
    WAITING = "waiting"
    FAILED = "failed"
    """A failure condition is true, or the time has passed."""


def binding_state(claim: Object, now: datetime) -> BindingState:
    """Return the state of an allocated *claim*."""
    conditioned = [item for item in _results(claim) if item.get("bindingConditions")]
    states = [_device_state(claim, result) for result in conditioned]
    if BindingState.FAILED in states:
        return BindingState.FAILED
    if BindingState.WAITING not in states:
        return BindingState.READY
    allocated = objects.parse_time(dig(claim, ("status", "allocation", "allocationTimestamp")))
    return BindingState.FAILED if allocated is not None and now >= allocated + TIMEOUT else BindingState.WAITING


def has_binding_conditions(allocation: Object) -> bool:
    """Return whether a device of *allocation* has conditions."""
    return any(item.get("bindingConditions") for item in dig(allocation, ("devices", "results")) or ())


def _device_state(claim: Object, result: Object) -> BindingState:
    status = next((item for item in dig(claim, ("status", "devices")) or () if _key(item) == _key(result)), None)
    if status is None:
        return BindingState.WAITING
    true = {item.get("type") for item in status.get("conditions") or () if item.get("status") == "True"}
    if true & set(result.get("bindingFailureConditions") or ()):
        return BindingState.FAILED
    return BindingState.READY if true.issuperset(result["bindingConditions"]) else BindingState.WAITING


def _results(claim: Object) -> list[Object]:
    return dig(claim, ("status", "allocation", "devices", "results")) or []


def _key(item: Object) -> tuple[str, ...]:
    return tuple(item.get(name) or "" for name in ("driver", "pool", "device", "shareID"))

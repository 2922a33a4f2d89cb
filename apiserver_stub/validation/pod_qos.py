"""The quality of service class of a pod, from its requests and limits or those of its containers. No I/O."""

from __future__ import annotations

from apiserver_stub.apimachinery.objects import Object
from apiserver_stub.validation.quantities import amount
from nodeagent.base.quantity import Quantity

_COUNTED = ("cpu", "memory")
_ZERO = Quantity()


def qos_class(spec: Object) -> str:
    """Return ``Guaranteed``, ``Burstable`` or ``BestEffort``."""
    requests: dict[str, Quantity] = {}
    limits: dict[str, Quantity] = {}
    guaranteed = True
    of_pod = spec.get("resources") is not None
    owners = [spec] if of_pod else [*(spec.get("containers") or ()), *(spec.get("initContainers") or ())]
    for container in owners:
        resources = container.get("resources")
        if not resources:
            guaranteed = False
            continue
        _add(requests, resources.get("requests"))
        guaranteed = _add(limits, resources.get("limits")) == len(_COUNTED) and guaranteed
    if not requests and not limits:
        return "BestEffort"
    return "Guaranteed" if guaranteed and requests == limits else "Burstable"


def _add(totals: dict[str, Quantity], amounts: Object | None) -> int:
    """Add the positive amounts to *totals*; returns their number."""
    found = 0
    for name in _COUNTED:
        text = (amounts or {}).get(name)
        if text is not None and (quantity := amount(text)) > _ZERO:
            found += 1
            totals[name] = totals.get(name, _ZERO) + quantity
    return found

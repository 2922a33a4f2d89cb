"""The quality of service class of a pod, from what its containers request and may use."""

from __future__ import annotations

from apiserver_stub.objects import Object
from nodeagent.base.quantity import parse_quantity

_COUNTED = ("cpu", "memory")


def qos_class(spec: Object) -> str:
    """Return ``Guaranteed``, ``Burstable`` or ``BestEffort``."""
    any_set, guaranteed = False, True
    for container in [*(spec.get("containers") or ()), *(spec.get("initContainers") or ())]:
        resources = container.get("resources") or {}
        requests, limits = resources.get("requests") or {}, resources.get("limits") or {}
        for name in _COUNTED:
            request, limit = _amount(requests.get(name)), _amount(limits.get(name))
            any_set = any_set or bool(request) or bool(limit)
            guaranteed = guaranteed and bool(limit) and request in (None, limit)
    if not any_set:
        return "BestEffort"
    return "Guaranteed" if guaranteed else "Burstable"


def _amount(text: object) -> object:
    try:
        return None if text is None else parse_quantity(str(text))
    except ValueError:
        return None

"""Binding of pods to nodes. No I/O."""

from __future__ import annotations

from apiserver_stub.apimachinery import objects
from apiserver_stub.apimachinery.objects import Object, dig

_SCHEDULED = "PodScheduled"


def bound(pod: Object, node: str) -> Object:
    """Return *pod* assigned to *node*."""
    conditions = list(dig(pod, ("status", "conditions")) or ())
    index = next((i for i, item in enumerate(conditions) if item.get("type") == _SCHEDULED), len(conditions))
    old = conditions[index] if index < len(conditions) else {}
    since = old.get("lastTransitionTime") if old.get("status") == "True" else objects.now()
    conditions[index : index + 1] = [
        {"type": _SCHEDULED, "status": "True", "lastProbeTime": None, "lastTransitionTime": since}
    ]
    return {
        **pod,
        "spec": {**pod["spec"], "nodeName": node},
        "status": {**pod.get("status", {}), "conditions": conditions},
    }

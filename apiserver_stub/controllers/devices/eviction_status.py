"""Condition of a DeviceTaintRule: the progress of the evictions that it requires. No I/O."""

from __future__ import annotations

from collections.abc import Mapping

from apiserver_stub.apimachinery.objects import Object

EVICTING, NO_EFFECT = "EvictionInProgress", "NoEffect"


def eviction_condition(
    rule: Object, pending: Mapping[str, str], evicted: int, published: int, allocated: int
) -> Object:
    """Return the condition of *rule*, without its time.

    :param pending: namespaces of the pods that are to be evicted, or would be, by UID.
    :param evicted: number of pods that were evicted.
    :param published: number of devices in slices that the rule selects.
    :param allocated: number of allocated devices that the rule selects.
    """
    effect, namespaces = rule["spec"]["taint"].get("effect"), len(set(pending.values()))
    status, message = "False", ""
    if effect == "NoExecute":
        reason = "Completed" if evicted else "NotStarted"
        if pending:
            status, reason = "True", "PodsPendingEviction"
            verb = "needs" if len(pending) == 1 else "need"
            message = f"{_count(len(pending), 'pod')} {verb} to be evicted in {_namespaces(namespaces)}."
    elif effect == "None":
        reason = NO_EFFECT
        message = (
            f"{_count(published, 'published device')} selected. {_count(allocated, 'allocated device')} selected. "
            f"{_count(len(pending), 'pod')} would be evicted in {_namespaces(namespaces)} if the effect was NoExecute. "
            "This information will not be updated again. Recreate the DeviceTaintRule to trigger an update."
        )
    else:
        reason, message = "OtherEffect", "Eviction only happens for the NoExecute effect."
    if evicted:
        message = f"{message} {_count(evicted, 'pod')} evicted since starting the controller.".lstrip()
    return {
        "type": EVICTING,
        "status": status,
        "observedGeneration": rule["metadata"].get("generation") or 0,
        "reason": reason,
        "message": message,
    }


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _namespaces(number: int) -> str:
    return "1 namespace" if number == 1 else f"{number} different namespaces"

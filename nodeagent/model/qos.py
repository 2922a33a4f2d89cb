"""QoS class of a pod, and the OOM score that follows from it. No I/O."""

from __future__ import annotations

from enum import StrEnum

from nodeagent.base import identity
from nodeagent.base.quantity import Quantity
from nodeagent.model.pod import Container, Pod
from nodeagent.model.resources import CPU, MEMORY, container_limits, container_requests

SYSTEM_CRITICAL_PRIORITY = 2_000_000_000
NODE_CRITICAL_CLASS = "system-node-critical"
_COUNTED = (CPU, MEMORY)
_GUARANTEED_SCORE = -997
_BEST_EFFORT_SCORE = 1000


class QosClass(StrEnum):
    GUARANTEED = "Guaranteed"
    BURSTABLE = "Burstable"
    BEST_EFFORT = "BestEffort"


def qos_class(pod: Pod) -> QosClass:
    """Return the class in the status, or compute it."""
    try:
        return QosClass(pod.status.qos_class)
    except ValueError:
        return compute_qos_class(pod)


def compute_qos_class(pod: Pod) -> QosClass:
    """Return the class by the cpu and memory resources of regular and init containers.

    BestEffort without requests and limits; Guaranteed if all containers limit both and request as much; else Burstable.
    Invalid quantities are ignored.
    """
    containers = [*pod.spec.containers, *(pod.spec.init_containers or ())]
    pairs = [_counted(container) for container in containers]
    if not any(requests or limits for requests, limits in pairs):
        return QosClass.BEST_EFFORT
    guaranteed = all(len(limits) == len(_COUNTED) and {**limits, **requests} == limits for requests, limits in pairs)
    return QosClass.GUARANTEED if guaranteed else QosClass.BURSTABLE


def is_static_or_mirror(pod: Pod) -> bool:
    """Return whether the pod is a static pod or the mirror pod of one."""
    annotations = pod.metadata.annotations or {}
    names = identity.current()
    return annotations.get(names.label("config.source"), "api") != "api" or names.label("config.mirror") in annotations


def is_critical(pod: Pod) -> bool:
    """Return whether the pod is critical: static, mirror, or of system priority."""
    return is_static_or_mirror(pod) or (pod.spec.priority or 0) >= SYSTEM_CRITICAL_PRIORITY


def is_node_critical(pod: Pod) -> bool:
    """Return whether the pod is critical and has the priority class ``system-node-critical``."""
    return is_critical(pod) and pod.spec.priority_class_name == NODE_CRITICAL_CLASS


def oom_score_adj(pod: Pod, container: Container, memory_capacity_bytes: int) -> int:
    """Return the OOM score adjustment of the container's processes, from -997 to 1000.

    :param memory_capacity_bytes: memory of the node.
    """
    if is_node_critical(pod):
        return _GUARANTEED_SCORE
    match qos_class(pod):
        case QosClass.GUARANTEED:
            return _GUARANTEED_SCORE
        case QosClass.BEST_EFFORT:
            return _BEST_EFFORT_SCORE
    request = container_requests(container).get(MEMORY, Quantity()).value()
    score = 1000 - 1000 * request // memory_capacity_bytes if memory_capacity_bytes > 0 else 999
    lowest = 1000 + _GUARANTEED_SCORE
    return lowest if score < lowest else min(score, _BEST_EFFORT_SCORE - 1)


def _counted(container: Container) -> tuple[dict[str, Quantity], dict[str, Quantity]]:
    """Return the requests and limits of a container that determine the class: cpu and memory above zero."""
    try:
        requests, limits = container_requests(container), container_limits(container)
    except ValueError:
        return {}, {}
    zero = Quantity()
    return (
        {name: amount for name, amount in requests.items() if name in _COUNTED and amount > zero},
        {name: amount for name, amount in limits.items() if name in _COUNTED and amount > zero},
    )

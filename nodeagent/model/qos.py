"""QoS class of a pod, and the OOM score that follows from it. No I/O."""

from __future__ import annotations

from enum import StrEnum

from nodeagent.base import identity
from nodeagent.base.quantity import Quantity
from nodeagent.model.pod import Container, Pod, ResourceRequirements
from nodeagent.model.resources import (
    CPU,
    MEMORY,
    amounts,
    container_requests,
    pod_level_requests,
    total_container_requests,
)

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
    """Return the class by the cpu and memory resources of the pod, otherwise of its regular and init containers.

    BestEffort without requests and limits; Guaranteed if all containers limit both and request as much; else Burstable.
    Invalid quantities are ignored.
    """
    if pod.spec.resources is not None:
        pairs = [_counted(pod.spec.resources)]
    else:
        containers = [*pod.spec.containers, *(pod.spec.init_containers or ())]
        pairs = [_counted(container.resources) for container in containers]
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
    request = _memory_request(container)
    if container.restartable_init:  # At least as important as the containers that it serves.
        request = max(request, min(map(_memory_request, pod.spec.containers), default=0))
    request += _unassigned_memory(pod)
    score = 1000 - 1000 * request // memory_capacity_bytes if memory_capacity_bytes > 0 else 999
    return max(1000 + _GUARANTEED_SCORE, min(score, _BEST_EFFORT_SCORE - 1))


def _memory_request(container: Container) -> int:
    return container_requests(container).get(MEMORY, Quantity()).value()


def _unassigned_memory(pod: Pod) -> int:
    """Return the share of one container in the memory that the pod requests and no container claims."""
    requested = pod_level_requests(pod).get(MEMORY)
    if not requested:
        return 0
    claimed = total_container_requests(pod).get(MEMORY, Quantity())
    count = len(pod.spec.containers) + len(pod.spec.init_containers or ())
    return (requested.value() - claimed.value()) // count


def _counted(resources: ResourceRequirements) -> tuple[dict[str, Quantity], dict[str, Quantity]]:
    """Return the requests and limits that determine the class: cpu and memory above zero."""
    try:
        requests, limits = amounts(resources.requests), amounts(resources.limits)
    except ValueError:
        return {}, {}
    zero = Quantity()
    return (
        {name: amount for name, amount in requests.items() if name in _COUNTED and amount > zero},
        {name: amount for name, amount in limits.items() if name in _COUNTED and amount > zero},
    )

"""Decisions about pending resizes: their order, and which can never be granted. No I/O."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import UTC, datetime

from nodeagent.base.quantity import Quantity
from nodeagent.base.structs import Struct
from nodeagent.model.pod import Container, Pod
from nodeagent.model.qos import QosClass, qos_class
from nodeagent.model.resizing import RESIZABLE, amount, needs_restart, resizable_containers
from nodeagent.model.resources import CPU, MEMORY, pod_requests

INFEASIBLE = "Infeasible"
DEFERRED = "Deferred"
_NEVER = datetime.max.replace(tzinfo=UTC)

MaySwap = Callable[[Pod, Container], bool]
"""Returns whether a container may use swap."""


class Infeasible(Struct, frozen=True):
    """A resize that this node can never grant: message for users, and reason in metrics."""

    message: str
    detail: str


class PendingResize(Struct, frozen=True):
    """A pod that requests other resources than it was granted.

    :ivar desired: the pod with the requested resources.
    :ivar allocated: the pod with the granted ones.
    :ivar since: time since which it is deferred; ``None`` for a new resize.
    """

    desired: Pod
    allocated: Pod
    since: datetime | None = None


class ResizeRules(Struct, frozen=True):
    """Properties of the node that make a resize infeasible.

    :ivar enabled: the feature gate InPlacePodVerticalScaling.
    :ivar init_containers: init containers that are not sidecars can be resized as well.
    :ivar pod_level: resources of pods themselves can be resized as well.
    """

    enabled: bool = True
    init_containers: bool = False
    pod_level: bool = False
    static_cpu_policy: bool = False
    static_memory_policy: bool = False


def in_order(pending: Iterable[PendingResize]) -> list[PendingResize]:
    """Return *pending* in the order in which they are decided.

    First those that increase no request, which always succeed; then by priority, by QoS class and by waiting time.
    """
    return sorted(
        pending,
        key=lambda each: (
            increases_requests(each.allocated, each.desired),
            -(each.desired.spec.priority or 0),
            qos_class(each.desired) is not QosClass.GUARANTEED,
            each.since or _NEVER,
        ),
    )


def increases_requests(allocated: Pod, desired: Pod) -> bool:
    """Return whether the pod requests more cpu or memory than it was granted."""
    return any(before < after for before, after in _requests(allocated, desired))


def infeasible(resize: PendingResize, rules: ResizeRules, may_swap: MaySwap) -> Infeasible | None:
    """Return why this node can never grant *resize*, or ``None``."""
    if not rules.enabled:
        return Infeasible("InPlacePodVerticalScaling is disabled", "feature_gate_off")
    if _changes_swap(resize, may_swap):
        text = "In-place resize of containers with swap is not supported."  # wording: ok
        return Infeasible(text, "swap_limitation")
    if qos_class(resize.desired) is QosClass.GUARANTEED:
        prefix = "Resize is infeasible for Guaranteed Pods alongside"
        if rules.static_cpu_policy and _changes(resize, CPU, rules):
            return Infeasible(f'{prefix} CPU Manager policy "static"', "guaranteed_pod_cpu_manager_static_policy")
        if rules.static_memory_policy and _changes(resize, MEMORY, rules):
            return Infeasible(f'{prefix} Memory Manager policy "Static"', "guaranteed_pod_memory_manager_static_policy")
    return None


def _requests(allocated: Pod, desired: Pod) -> list[tuple[Quantity, Quantity]]:
    """Return the total request of each resource that can be resized, before and after the resize."""
    try:
        before, after = pod_requests(allocated), pod_requests(desired)
    except ValueError:  # Rejected by the admission.
        return []
    return [(before.get(name, Quantity()), after.get(name, Quantity())) for name in RESIZABLE]


def _changes_swap(resize: PendingResize, may_swap: MaySwap) -> bool:
    allocated = {container.name: container for _, container in resize.allocated.containers()}
    for _, container in resizable_containers(resize.desired, init=True):
        before = allocated.get(container.name)
        if before is None or needs_restart(container, MEMORY):
            continue
        if amount(container.resources.requests, MEMORY) != amount(before.resources.requests, MEMORY) and (
            may_swap(resize.desired, container) or may_swap(resize.allocated, before)
        ):
            return True
    return False


def _changes(resize: PendingResize, resource: str, rules: ResizeRules) -> bool:
    """Return whether a container's request of *resource* changes; a Guaranteed pod's limits equal its requests."""
    allocated = {container.name: container.resources.requests for _, container in resize.allocated.containers()}
    return any(
        amount(container.resources.requests, resource) != amount(allocated.get(container.name), resource)
        for _, container in resizable_containers(resize.desired, init=rules.init_containers)
    )

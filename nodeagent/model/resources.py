"""What pods ask for in sum: requests and limits of containers added up as scheduling and cgroups count them. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from nodeagent.base.quantity import Quantity
from nodeagent.model.pod import Container, Pod, QuantityText, ResourceList

Amounts = dict[str, Quantity]

CPU = "cpu"
MEMORY = "memory"
PODS = "pods"
EPHEMERAL_STORAGE = "ephemeral-storage"
HUGEPAGES_PREFIX = "hugepages-"


def quantity(value: QuantityText) -> Quantity:
    """Read an amount as a pod writes it; bare numbers are allowed.

    :raises ValueError: it is no quantity.
    """
    if isinstance(value, int) and not isinstance(value, bool):
        return Quantity(value)
    return Quantity.parse(str(value))


def amounts(resources: ResourceList | None) -> Amounts:
    """Read a resource list.

    :raises ValueError: an amount is no quantity.
    """
    return {name: quantity(value) for name, value in (resources or {}).items()}


def container_requests(container: Container) -> Amounts:
    """Return what a container requests."""
    return amounts(container.resources.requests)


def container_limits(container: Container) -> Amounts:
    """Return the limits of a container."""
    return amounts(container.resources.limits)


def pod_requests(pod: Pod) -> Amounts:
    """Return what a pod needs at once: the larger of what runs in the end and what its initialisation takes.

    Sidecars (restartable init containers) run beside everything that follows them; the overhead comes on top.
    """
    return _with_overhead(_sum(pod, container_requests), pod, everywhere=True)


def pod_limits(pod: Pod) -> Amounts:
    """Return the sum of limits, counted as :func:`pod_requests` does; overhead is added to what is limited at all."""
    return _with_overhead(_sum(pod, container_limits), pod, everywhere=False)


def limited_everywhere(pod: Pod, resource: str) -> bool:
    """Whether every container has a limit above zero for *resource*: without that a pod's sum is no limit."""
    return all(
        bool(container_limits(container).get(resource, Quantity()))
        for container in [*pod.spec.containers, *(pod.spec.init_containers or ())]
    )


def add(into: Amounts, more: Mapping[str, Quantity]) -> None:
    """Add *more* to the amounts in *into*, in place."""
    for name, amount in more.items():
        into[name] = into[name] + amount if name in into else amount


def _sum(pod: Pod, of: Callable[[Container], Amounts]) -> Amounts:
    running: Amounts = {}
    for container in pod.spec.containers:
        add(running, of(container))
    sidecars: Amounts = {}
    largest_start: Amounts = {}
    for container in pod.spec.init_containers or ():
        own = of(container)
        if container.restartable_init:
            add(running, own)
            add(sidecars, own)
            at_once = sidecars
        else:
            at_once = dict(sidecars)
            add(at_once, own)
        _raise_to(largest_start, at_once)
    _raise_to(running, largest_start)
    return running


def _raise_to(into: Amounts, floor: Amounts) -> None:
    for name, amount in floor.items():
        if name not in into or into[name] < amount:
            into[name] = amount


def _with_overhead(total: Amounts, pod: Pod, *, everywhere: bool) -> Amounts:
    for name, amount in amounts(pod.spec.overhead).items():
        if name in total:
            total[name] = total[name] + amount
        elif everywhere:
            total[name] = amount
    return total

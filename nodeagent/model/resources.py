"""Resource requests and limits of pods: the totals that scheduling and cgroups use. No I/O."""

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
    """Parse a quantity of a pod; numbers are allowed as well.

    :raises ValueError: *value* is not a quantity.
    """
    if isinstance(value, int) and not isinstance(value, bool):
        return Quantity(value)
    return Quantity.parse(str(value))


def amounts(resources: ResourceList | None) -> Amounts:
    """Parse a resource list.

    :raises ValueError: a value is not a quantity.
    """
    return {name: quantity(value) for name, value in (resources or {}).items()}


def container_requests(container: Container) -> Amounts:
    """Return the requests of a container."""
    return amounts(container.resources.requests)


def container_limits(container: Container) -> Amounts:
    """Return the limits of a container."""
    return amounts(container.resources.limits)


def pod_level_requests(pod: Pod) -> Amounts:
    """Return the requests in ``spec.resources``, which replace those of the containers."""
    return {} if pod.spec.resources is None else _of_pods(pod.spec.resources.requests)


def pod_level_limits(pod: Pod) -> Amounts:
    """Return the limits in ``spec.resources``, which replace those of the containers."""
    return {} if pod.spec.resources is None else _of_pods(pod.spec.resources.limits)


def has_pod_level_resources(pod: Pod) -> bool:
    """Return whether ``spec.resources`` has requests or limits."""
    return bool(pod_level_requests(pod) or pod_level_limits(pod))


def is_pod_level_resource(name: str) -> bool:
    """Return whether *name* may be in ``spec.resources``."""
    return name in (CPU, MEMORY) or name.startswith(HUGEPAGES_PREFIX)


def total_container_requests(pod: Pod) -> Amounts:
    """Return the requests of a pod's containers: the maximum of the regular ones and any step of initialization.

    Sidecars (restartable init containers) run concurrently with all later containers.
    """
    return _sum(pod, container_requests)


def pod_requests(pod: Pod) -> Amounts:
    """Return the effective requests of a pod: its own, otherwise those of its containers; the overhead is added."""
    return _with_overhead(total_container_requests(pod) | pod_level_requests(pod), pod, everywhere=True)


def pod_limits(pod: Pod) -> Amounts:
    """Return the effective limits, computed as in :func:`pod_requests`; overhead is added only to limited resources."""
    return _with_overhead(_sum(pod, container_limits) | pod_level_limits(pod), pod, everywhere=False)


def effective_limits(pod: Pod, container: Container) -> Amounts:
    """Return the limits of *container*; those of the pod apply to resources that it does not limit."""
    own = {name: amount for name, amount in container_limits(container).items() if amount or name not in (CPU, MEMORY)}
    return pod_level_limits(pod) | own


def limited_everywhere(pod: Pod, resource: str) -> bool:
    """Return whether the pod or all of its containers limit *resource*; otherwise their total is not effective."""
    return bool(pod_level_limits(pod).get(resource)) or all(
        bool(container_limits(container).get(resource, Quantity()))
        for container in [*pod.spec.containers, *(pod.spec.init_containers or ())]
    )


def add(into: Amounts, more: Mapping[str, Quantity]) -> None:
    """Add *more* to the quantities in *into*, in place."""
    for name, amount in more.items():
        into[name] = into[name] + amount if name in into else amount


def _sum(pod: Pod, of: Callable[[Container], Amounts]) -> Amounts:
    running: Amounts = {}
    for container in pod.spec.containers:
        add(running, of(container))
    sidecars: Amounts = {}
    largest_start: Amounts = {}
    for container in pod.spec.init_containers or ():
        step = of(container)
        if container.restartable_init:
            add(running, step)
            add(sidecars, step)
            concurrent = sidecars
        else:
            concurrent = dict(sidecars)
            add(concurrent, step)
        _raise_to(largest_start, concurrent)
    _raise_to(running, largest_start)
    return running


def _of_pods(resources: ResourceList | None) -> Amounts:
    return {name: amount for name, amount in amounts(resources).items() if is_pod_level_resource(name)}


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

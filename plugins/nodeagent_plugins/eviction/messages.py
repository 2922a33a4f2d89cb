"""Eviction messages with upstream wording. No I/O."""

from __future__ import annotations

from nodeagent.base.quantity import Format, Quantity
from nodeagent.contracts.eviction import EvictionCandidate
from nodeagent.model.eviction_thresholds import Threshold
from nodeagent.model.resources import MEMORY, container_requests, pod_level_requests
from nodeagent_plugins.eviction.ranking import container_use
from nodeagent_plugins.eviction.signals import Observation, resource_of, shown

REASON = "Evicted"


def eviction_message(
    threshold: Threshold,
    observed: Observation | None,
    candidate: EvictionCandidate,
    *,
    init_containers: bool = False,
) -> tuple[str, dict[str, str]]:
    """Return the message for status and event, and the annotations of the event.

    :param init_containers: include init containers and sidecars.
    """
    resource = resource_of(threshold.signal)
    message = f"The node was low on resource: {resource}. "
    if observed is not None:
        limit = threshold.limit.quantity or Quantity(threshold.limit.of(observed.capacity), format=Format.BINARY)
        message += f"Threshold quantity: {limit}, available: {shown(threshold.signal, observed.available)}. "
    pod, own = candidate.pod, _own_usage(resource, candidate)
    if own is not None:
        used, requested = own
        message += f"Pod {pod.name} was using {used}, request is {requested}, has larger consumption of {resource}. "
    offenders = _offenders(resource, candidate, init_containers=init_containers)
    for name, used, requested in offenders:
        message += f"Container {name} was using {used}, request is {requested}, has larger consumption of {resource}. "
    annotations = {
        "offending_containers": ",".join(name for name, _, _ in offenders),
        "offending_containers_usage": ",".join(str(used) for _, used, _ in offenders),
        "starved_resource": resource,
    }
    if own is not None:
        annotations |= {"offending_pod": pod.name, "offending_pod_usage": str(own[0])}
    return message, annotations


def _own_usage(resource: str, candidate: EvictionCandidate) -> tuple[Quantity, Quantity] | None:
    """Return memory usage and request of a pod that requests memory for all of its containers together."""
    requested = pod_level_requests(candidate.pod).get(resource)
    memory = candidate.usage.memory if candidate.usage is not None else None
    if resource != MEMORY or requested is None or memory is None:
        return None
    return Quantity(memory.working_set_bytes or 0, format=Format.BINARY), requested


def _offenders(
    resource: str, candidate: EvictionCandidate, *, init_containers: bool
) -> list[tuple[str, Quantity, Quantity]]:
    """Return the containers that exceed their request, with usage and request.

    Ephemeral containers have no requests, so they would always be included.
    """
    spec = candidate.pod.spec
    named = [*spec.containers, *(spec.init_containers or () if init_containers else ())]
    specs = {container.name: container for container in named}
    found = []
    for container in candidate.usage.containers if candidate.usage is not None else ():
        used = container_use(resource, container)
        container_spec = specs.get(container.name)
        if used is None or container_spec is None:
            continue
        requested = container_requests(container_spec).get(resource, Quantity())
        if used > requested.value():
            found.append((container.name, Quantity(used, format=Format.BINARY), requested))
    return found

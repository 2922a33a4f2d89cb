"""Containers and resources that can be resized while the pod runs. No I/O."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import StrEnum

import msgspec

from nodeagent.base.quantity import Quantity
from nodeagent.model.pod import Container, ContainerKind, Pod, ResourceList, ResourceRequirements
from nodeagent.model.resources import CPU, MEMORY, amounts, effective_limits, pod_level_limits

RESIZABLE = (MEMORY, CPU)
"""Resources that can be resized, in the order in which they are."""


class ResizeCondition(StrEnum):
    """Pod conditions that report a resize."""

    PENDING = "PodResizePending"
    IN_PROGRESS = "PodResizeInProgress"


def resizable_containers(pod: Pod, *, init: bool = False) -> Iterator[tuple[ContainerKind, Container]]:
    """Yield the containers that can be resized: regular containers and sidecars.

    :param init: also yield the other init containers.
    """
    for kind, container in pod.containers():
        if kind is ContainerKind.REGULAR or (kind is ContainerKind.INIT and (init or container.restartable_init)):
            yield kind, container


def same_resources(a: ResourceRequirements | None, b: ResourceRequirements | None) -> bool:
    """Return whether requests and limits have equal quantities, regardless of notation."""
    if a == b:
        return True
    if a is None or b is None:
        return False
    return _same(a.requests, b.requests) and _same(a.limits, b.limits) and (a.claims or None) == (b.claims or None)


def amount(resources: ResourceList | None, name: str) -> Quantity:
    """Return the quantity of *name*; zero if it is unset.

    :raises ValueError: it is not a quantity.
    """
    return amounts({name: resources[name]}).get(name, Quantity()) if resources and name in resources else Quantity()


def needs_restart(container: Container, resource: str) -> bool:
    """Return whether the container must be restarted when *resource* changes."""
    for policy in container.resize_policy or ():
        if policy.get("resourceName") == resource:
            return bool(policy.get("restartPolicy") == "RestartContainer")
    return False


def with_effective_limits(pod: Pod, container: Container) -> Container:
    """Return *container* with the limits of the pod that apply to it."""
    if not pod_level_limits(pod):
        return container
    limits = {name: str(value) for name, value in effective_limits(pod, container).items()}
    return _replaced(container, msgspec.structs.replace(container.resources, limits=limits))


def with_pod_resources(pod: Pod, resources: ResourceRequirements | None) -> Pod:
    """Return *pod* with other resources of the pod itself."""
    if same_resources(resources, pod.spec.resources):
        return pod
    return msgspec.structs.replace(pod, spec=msgspec.structs.replace(pod.spec, resources=resources))


def same_amounts(a: ResourceRequirements | None, b: ResourceRequirements | None) -> bool:
    """Return whether requests and limits of the resources that can be resized are equal."""
    a, b = a or ResourceRequirements(), b or ResourceRequirements()
    return all(
        amount(a.requests, name) == amount(b.requests, name) and amount(a.limits, name) == amount(b.limits, name)
        for name in RESIZABLE
    )


def with_resources(pod: Pod, containers: Mapping[str, ResourceRequirements]) -> Pod:
    """Return *pod* with the resources of the containers in *containers* replaced."""
    spec, changes = pod.spec, {}
    for field in ("containers", "init_containers"):
        listed: list[Container] = getattr(spec, field) or []
        changed = [_replaced(container, containers.get(container.name)) for container in listed]
        if any(new is not old for new, old in zip(changed, listed, strict=True)):
            changes[field] = changed
    if not changes:
        return pod
    return msgspec.structs.replace(pod, spec=msgspec.structs.replace(spec, **changes))


def _replaced(container: Container, resources: ResourceRequirements | None) -> Container:
    if resources is None or same_resources(resources, container.resources):
        return container
    return msgspec.structs.replace(container, resources=resources)


def _same(a: ResourceList | None, b: ResourceList | None) -> bool:
    if a == b:
        return True
    try:
        return amounts(a) == amounts(b)
    except ValueError:
        return False

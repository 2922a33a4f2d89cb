"""Resources of a pod as a whole (``spec.resources``) in a static pod: defaults and validation. No I/O."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from nodeagent.model.checks import Problems
from nodeagent.model.pod import Container, Pod, ResourceRequirements
from nodeagent.model.resources import (
    CPU,
    MEMORY,
    Amounts,
    amounts,
    container_limits,
    is_pod_level_resource,
    total_container_requests,
)

_PATH = "spec.resources"


def with_pod_level_requests(pod: Pod) -> Pod:
    """Return *pod* with the requests that the API server adds if there are limits.

    A missing request is the total of the containers, otherwise the limit. Invalid quantities are ignored.
    """
    resources = pod.spec.resources
    if resources is None or not resources.limits:
        return pod
    try:
        claimed = total_container_requests(pod)
    except ValueError:
        return pod
    totals = {name: str(amount) for name, amount in claimed.items() if name in (CPU, MEMORY)}
    requests = {**resources.limits, **totals, **(resources.requests or {})}
    replace = msgspec.structs.replace
    return replace(pod, spec=replace(pod.spec, resources=replace(resources, requests=requests)))


def check_pod_level_resources(problems: Problems, pod: Pod) -> None:
    """Check names and quantities, and that the containers stay within the resources of the pod."""
    resources = pod.spec.resources
    if resources is None:
        return
    if resources.claims:
        problems.add(f"{_PATH}.claims", None, "must not be set for a pod")
    try:
        limits, requests = _checked(problems, resources)
        claimed = total_container_requests(pod)
        used = [(path, container_limits(container)) for path, container in _containers(pod)]
    except ValueError:
        return  # Reported for the quantity.
    for name, amount in requests.items():
        if name in limits and amount > limits[name]:
            problems.add(f"{_PATH}.requests[{name}]", str(amount), f"must not exceed the limit of {limits[name]}")
        if name in claimed and claimed[name] > amount:
            rule = f"must not be less than {claimed[name]}, the total of the containers"
            problems.add(f"{_PATH}.requests[{name}]", str(amount), rule)
    for path, own in used:
        for name in own.keys() & limits.keys():
            if own[name] > limits[name]:
                where = f"{path}.resources.limits[{name}]"
                problems.add(where, str(own[name]), f"must not exceed the pod's limit of {limits[name]}")


def _checked(problems: Problems, resources: ResourceRequirements) -> tuple[Amounts, Amounts]:
    """Check the names; return limits and requests.

    :raises ValueError: a value is not a quantity.
    """
    for kind, values in (("limits", resources.limits), ("requests", resources.requests)):
        for name, value in (values or {}).items():
            if not is_pod_level_resource(name):
                problems.add(f"{_PATH}.{kind}", name, "must be cpu, memory or hugepages-*")
            try:
                amounts({name: value})
            except ValueError as error:
                problems.add(f"{_PATH}.{kind}[{name}]", value, str(error))
    return amounts(resources.limits), amounts(resources.requests)


def _containers(pod: Pod) -> Iterator[tuple[str, Container]]:
    for kind, containers in (("initContainers", pod.spec.init_containers), ("containers", pod.spec.containers)):
        for index, container in enumerate(containers or ()):
            yield f"spec.{kind}[{index}]", container

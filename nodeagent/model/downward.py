"""Downward API: values of pod fields for environment variables and files. No I/O."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from nodeagent.base.quantity import Quantity
from nodeagent.model.pod import Container, Pod, ResourceFieldSelector
from nodeagent.model.resources import CPU, EPHEMERAL_STORAGE, HUGEPAGES_PREFIX, MEMORY, pod_level_limits, quantity

_SUBSCRIPT = re.compile(r"metadata\.(labels|annotations)\['(.*)'\]")
_FROM_NODE = (CPU, MEMORY, EPHEMERAL_STORAGE)
"""Resources whose default limit is the node's allocatable."""


def metadata_value(pod: Pod, path: str) -> str | None:
    """Return name, namespace, UID, or one label or annotation; ``None`` for any other *path*."""
    if match := _SUBSCRIPT.fullmatch(path):
        entries = pod.metadata.labels if match[1] == "labels" else pod.metadata.annotations
        return (entries or {}).get(match[2], "")
    match path:
        case "metadata.name":
            return pod.name
        case "metadata.namespace":
            return pod.namespace
        case "metadata.uid":
            return pod.uid
    return None


def resource_value(
    pod: Pod,
    selector: ResourceFieldSelector,
    allocatable: Callable[[], Mapping[str, Any]],
    container: Container | None = None,
) -> str:
    """Return a limit or request in units of the divisor, rounded up.

    :param allocatable: returns the node's resources, which replace limits that neither the container nor the pod sets.
    :param container: default if *selector* names no container.
    :raises ValueError: there is no such container or resource, or the divisor is not a quantity.
    """
    if selector.container_name or container is None:
        container = next((c for _, c in pod.containers() if c.name == selector.container_name), None)
        if container is None:
            raise ValueError(f"container {selector.container_name} not found")
    side, _, resource = selector.resource.partition(".")
    supported = resource in _FROM_NODE or resource.startswith(HUGEPAGES_PREFIX)
    if side not in ("limits", "requests") or not supported:
        raise ValueError(f"unsupported container resource: {selector.resource}")
    amounts = container.resources.limits if side == "limits" else container.resources.requests
    try:
        amount = quantity((amounts or {}).get(resource, 0))
        if not amount and side == "limits" and resource in _FROM_NODE:
            amount = pod_level_limits(pod).get(resource) or quantity(allocatable().get(resource, 0))
        divisor = quantity(selector.divisor) or Quantity(1)
    except ValueError as error:
        raise ValueError(f"resource {selector.resource}: {error}") from error
    if resource == CPU:
        return str(-(-amount.milli_value() // divisor.milli_value()))
    return str(-(-amount.value() // divisor.value()))

"""Names of extended resources, and the devices that containers request. No I/O."""

from __future__ import annotations

import re
from collections.abc import Mapping

from nodeagent.model.pod import Container, Pod
from nodeagent.model.resources import quantity

_REQUESTS_PREFIX = "requests."
_MAX_PREFIX, _MAX_NAME = 253, 63
_LABEL = r"[a-z0-9](?:[a-z0-9-]*[a-z0-9])?"
_SUBDOMAIN = re.compile(rf"{_LABEL}(?:\.{_LABEL})*", re.ASCII)
_NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9_.-]*[A-Za-z0-9])?", re.ASCII)


def is_extended_resource(name: str) -> bool:
    """Return whether *name* is an extended resource: with a domain that does not belong to Kubernetes."""
    prefix, separator, rest = name.rpartition("/")
    if not separator or "kubernetes.io/" in name or name.startswith(_REQUESTS_PREFIX):
        return False
    qualified = f"{_REQUESTS_PREFIX}{prefix}"  # The name of its quota must be valid, too.
    return (
        len(qualified) <= _MAX_PREFIX
        and _SUBDOMAIN.fullmatch(qualified) is not None
        and len(rest) <= _MAX_NAME
        and _NAME.fullmatch(rest) is not None
    )


def requested_devices(container: Container, pod: Pod | None = None) -> Mapping[str, int]:
    """Return the extended resources that *container* requests, without those of amount zero.

    :param pod: its pod, to leave out the resources that a claim provides.
    """
    limits = container.resources.limits
    if not limits:
        return {}
    found = {name: quantity(amount).value() for name, amount in limits.items() if "/" in name}
    claimed = provided_by_claims(pod) if pod is not None and found else frozenset()
    return {
        name: amount
        for name, amount in found.items()
        if amount > 0 and name not in claimed and is_extended_resource(name)
    }


def provided_by_claims(pod: Pod) -> frozenset[str]:
    """Return the extended resources of *pod* that a resource claim provides, as the scheduler has decided."""
    status = pod.status.extended_resource_claim_status
    mappings = status.request_mappings if status is not None else None
    return frozenset(mapping.resource_name for mapping in mappings or ())


def containers_in_order(pod: Pod) -> list[Container]:
    """Return init containers, then regular ones; ephemeral containers have no devices."""
    return [*(pod.spec.init_containers or ()), *pod.spec.containers]

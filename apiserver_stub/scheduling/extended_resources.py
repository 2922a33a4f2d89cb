"""Extended resources that dynamic resource allocation provides: the claim of a pod for them. No I/O.

Every container has its own request, also init containers that could use the devices of others.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from apiserver_stub.apimachinery import resource_lists
from apiserver_stub.apimachinery.objects import Object


@dataclass(frozen=True, slots=True)
class ExtendedRequest:
    """Request of a container for an extended resource."""

    container: str
    index: tuple[int, int]
    """Position of the container, init containers first, and of the resource by name."""
    resource: str
    amount: int

    @property
    def name(self) -> str:
        """Name of the request in the claim."""
        return f"container-{self.index[0]}-request-{self.index[1]}"


def extended_requests(spec: Object) -> Iterator[ExtendedRequest]:
    """Yield the requests of a pod with *spec* for resources with a domain."""
    containers = [*(spec.get("initContainers") or ()), *(spec.get("containers") or ())]
    for index, container in enumerate(containers):
        amounts = resource_lists.of_container(container, "requests")
        named = sorted((name, amount.value()) for name, amount in amounts.items() if "/" in name)
        for number, (name, amount) in enumerate(named):
            if amount > 0:
                yield ExtendedRequest(container.get("name") or "", (index, number), name, amount)


def classes_by_resource(classes: Mapping[str, Object], prefix: str) -> dict[str, str]:
    """Return the device class of each extended resource; the class that was created last takes precedence.

    :param prefix: prefix of the resource that each class provides besides its own one.
    """
    found: dict[str, str] = {}
    order = sorted(classes.values(), key=lambda item: _age(item["metadata"]))
    for item in order:
        name = item["metadata"]["name"]
        if resource := (item.get("spec") or {}).get("extendedResourceName"):
            found[resource] = name
    return found | {f"{prefix}{name}": name for name in classes}


def _age(metadata: Object) -> tuple[str, str]:
    return str(metadata.get("creationTimestamp") or ""), str(metadata.get("name"))


def claim_spec(requests: Sequence[ExtendedRequest], classes: Mapping[str, str]) -> Object:
    """Return the specification of the claim for *requests*."""
    return {
        "devices": {
            "requests": [
                {
                    "name": request.name,
                    "exactly": {
                        "deviceClassName": classes[request.resource],
                        "allocationMode": "ExactCount",
                        "count": request.amount,
                    },
                }
                for request in requests
            ]
        }
    }


def claim_status(claim: str, requests: Sequence[ExtendedRequest]) -> Object:
    """Return the status of the pod about its *claim* for *requests*."""
    mappings = [
        {"containerName": request.container, "resourceName": request.resource, "requestName": request.name}
        for request in requests
    ]
    return {"requestMappings": mappings, "resourceClaimName": claim}

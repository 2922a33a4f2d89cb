"""Extended resources that dynamic resource allocation provides: the claim of a pod for them. No I/O."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace

from apiserver_stub.apimachinery import resource_lists
from apiserver_stub.apimachinery.objects import Object
from nodeagent.base.structs import Struct


class ContainerAmount(Struct, frozen=True):
    """Amount of an extended resource that a container requests."""

    container: str
    index: int
    """Position of the container, init containers first."""
    number: int
    """Position of the resource among the requests of the container, by name."""
    resource: str
    amount: int
    is_short: bool = False
    """True if the container ends before the next one starts, so that later ones may have its devices."""

    @property
    def name(self) -> str:
        """Name of the request in the claim."""
        return f"container-{self.index}-request-{self.number}"


class ExtendedMapping(Struct, frozen=True):
    """Use of a request of the claim by a container."""

    container: str
    resource: str
    request: str


class ExtendedClaim(Struct, frozen=True):
    """Requests of the claim for the extended resources of a pod, and their use by its containers."""

    requests: tuple[ContainerAmount, ...] = ()
    mappings: tuple[ExtendedMapping, ...] = ()

    def spec(self, classes: Mapping[str, str]) -> Object:
        """Return the specification of the claim; *classes* are the device classes by resource."""
        requests = [
            {
                "name": request.name,
                "exactly": {
                    "deviceClassName": classes[request.resource],
                    "allocationMode": "ExactCount",
                    "count": request.amount,
                },
            }
            for request in self.requests
        ]
        return {"devices": {"requests": requests}}

    def status(self, claim: str) -> Object:
        """Return the status of the pod about its *claim*."""
        mappings = [
            {"containerName": item.container, "resourceName": item.resource, "requestName": item.request}
            for item in self.mappings
        ]
        return {"requestMappings": mappings, "resourceClaimName": claim}


def extended_amounts(spec: Object) -> Iterator[ContainerAmount]:
    """Yield the requests of a pod with *spec* for resources with a domain."""
    init = spec.get("initContainers") or ()
    for index, container in enumerate([*init, *(spec.get("containers") or ())]):
        is_short = index < len(init) and container.get("restartPolicy") != "Always"
        amounts = resource_lists.of_container(container, "requests")
        for number, (name, amount) in enumerate(sorted(amounts.items())):
            if "/" in name and (count := amount.value()) > 0:
                yield ContainerAmount(container.get("name") or "", index, number, name, count, is_short)


def extended_claim(amounts: Sequence[ContainerAmount], resources: Collection[str]) -> ExtendedClaim:
    """Return the claim for *resources*.

    An init container has the devices of later containers, and those of other init containers.
    """
    requests: list[ContainerAmount] = []
    mappings: list[ExtendedMapping] = []
    for resource in sorted(resources):
        own = [item for item in amounts if item.resource == resource]
        long = [item for item in own if not item.is_short]
        mappings += [ExtendedMapping(item.container, resource, item.name) for item in long]
        additional: list[ContainerAmount] = []
        short: list[tuple[ContainerAmount, str]] = []
        for item in own:
            if not item.is_short:
                continue
            missing = item.amount
            for later in long:
                if later.index >= item.index and missing > 0:
                    short.append((item, later.name))
                    missing -= later.amount
            if missing > 0:
                additional.append(replace(item, amount=missing))
                short.append((item, ""))
        largest = max(additional, key=lambda item: item.amount, default=None)
        if largest is not None:
            requests.append(largest)
        shared = "" if largest is None else largest.name
        mappings += [ExtendedMapping(item.container, resource, name or shared) for item, name in short]
        requests += long
    return ExtendedClaim(tuple(sorted(requests, key=lambda item: item.name)), tuple(mappings))


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

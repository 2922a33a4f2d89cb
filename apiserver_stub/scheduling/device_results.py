"""Allocation results of claims: the devices, configurations and nodes that a status has. No I/O."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping, Sequence

from apiserver_stub.apimachinery.objects import Object
from apiserver_stub.scheduling.device_pools import Device, selector_of_node
from nodeagent.base.quantity import Quantity
from nodeagent.base.structs import Struct


class DeviceRequest(Struct, frozen=True):
    """A request or subrequest of a claim, and the devices that it selects."""

    name: str
    """Name in results: ``request`` or ``request/subrequest``."""
    parent: str
    spec: Object
    candidates: Sequence[Device]
    needs_all: bool
    count: int

    @property
    def is_admin(self) -> bool:
        return bool(self.spec.get("adminAccess"))


class ChosenDevice(Struct, frozen=True):
    """A device for a request."""

    request: DeviceRequest
    device: Device
    capacity: Mapping[str, Quantity] | None = None
    """Consumed capacity of a device that several claims share; ``None`` for a dedicated one."""


def allocation(claim: Object, chosen: Sequence[ChosenDevice], classes: Mapping[str, Object], node: str) -> Object:
    """Return the allocation of *claim* with the *chosen* devices on *node*."""
    devices: Object = {"results": [_result(item) for item in chosen]}
    if config := list(_configurations(claim, chosen, classes)):
        devices["config"] = config
    found: Object = {"devices": devices}
    if any(item.device.selector is not None or item.device.spec.get("bindsToNode") for item in chosen):
        # Devices of other scopes are available on this node too; a claim is never used on two nodes here.
        found["nodeSelector"] = selector_of_node(node)
    return found


def _result(item: ChosenDevice) -> Object:
    request, device = item.request, item.device
    result: Object = {"request": request.name, **device.id._asdict()}
    if request.is_admin:
        result["adminAccess"] = True
    if request.spec.get("tolerations"):
        result["tolerations"] = request.spec["tolerations"]
    for conditions in ("bindingConditions", "bindingFailureConditions"):
        if device.spec.get(conditions):
            result[conditions] = device.spec[conditions]
    if item.capacity is not None:
        result["shareID"] = str(uuid.uuid4())
        if item.capacity:
            result["consumedCapacity"] = {name: str(amount) for name, amount in item.capacity.items()}
    return result


def _configurations(claim: Object, chosen: Sequence[ChosenDevice], classes: Mapping[str, Object]) -> Iterator[Object]:
    requests = list({item.request.name: item.request for item in chosen}.values())
    by_class: dict[str, list[str]] = {}
    for request in requests:
        by_class.setdefault(request.spec["deviceClassName"], []).append(request.name)
    for class_name, names in by_class.items():
        for config in (classes[class_name].get("spec") or {}).get("config") or ():
            yield {"source": "FromClass", "requests": names, "opaque": config["opaque"]}
    relevant = {name for request in requests for name in (request.name, request.parent)}
    for config in claim["spec"]["devices"].get("config") or ():
        if not config.get("requests") or relevant.intersection(config["requests"]):
            yield {"source": "FromClaim", **config}

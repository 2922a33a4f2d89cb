"""Fields of disabled features of dynamic resource allocation: dropped from written objects unless they are in use.

Objects have the structure of API version ``v1``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from apiserver_stub.apimachinery.objects import Object, dig
from nodeagent.base.gates import FeatureGates

_Owners = Callable[[Object], Iterable[Object]]
"""Returns the parts of an object that may have a field."""


def drop_from_class(gates: FeatureGates, new: Object, old: Object | None = None) -> None:
    _drop(gates, _OF_CLASS, new, old)


def drop_from_claim(gates: FeatureGates, new: Object, old: Object | None = None) -> None:
    """Drop fields of disabled features from the specification of a claim or of a template."""
    _drop(gates, _OF_CLAIM, new, old)


def drop_from_claim_status(gates: FeatureGates, new: Object, old: Object) -> None:
    _drop(gates, _OF_STATUS, new, old)


def drop_from_slice(gates: FeatureGates, new: Object, old: Object | None = None) -> None:
    _drop(gates, _OF_SLICE, new, old)


def _drop(
    gates: FeatureGates, rules: Iterable[tuple[str, _Owners, tuple[str, ...]]], new: Object, old: Object | None
) -> None:
    for gate, owners, names in rules:
        if all(gates.enabled(name) for name in gate.split("+")):
            continue
        in_use = old is not None and any(item.get(name) is not None for item in owners(old) for name in names)
        if not in_use:
            for item in owners(new):
                for name in names:
                    item.pop(name, None)


def _spec(obj: Object) -> Iterator[Object]:
    yield obj.get("spec") or {}


def _requests(obj: Object) -> Iterator[Object]:
    spec = obj.get("spec") or {}
    devices = spec.get("devices") or dig(spec, ("spec", "devices")) or {}
    yield from devices.get("requests") or ()


def _exact(obj: Object) -> Iterator[Object]:
    return (request["exactly"] for request in _requests(obj) if request.get("exactly"))


def _exact_or_alternative(obj: Object) -> Iterator[Object]:
    yield from _exact(obj)
    for request in _requests(obj):
        yield from request.get("firstAvailable") or ()


def _constraints(obj: Object) -> Iterator[Object]:
    spec = obj.get("spec") or {}
    devices = spec.get("devices") or dig(spec, ("spec", "devices")) or {}
    yield from devices.get("constraints") or ()


def _status(obj: Object) -> Iterator[Object]:
    yield obj.get("status") or {}


def _results(obj: Object) -> Iterator[Object]:
    yield from dig(obj, ("status", "allocation", "devices", "results")) or ()


def _device_statuses(obj: Object) -> Iterator[Object]:
    yield from dig(obj, ("status", "devices")) or ()


def _devices(obj: Object) -> Iterator[Object]:
    yield from dig(obj, ("spec", "devices")) or ()


def _attributes(obj: Object) -> Iterator[Object]:
    return (item for device in _devices(obj) for item in (device.get("attributes") or {}).values())


def _capacities(obj: Object) -> Iterator[Object]:
    return (item for device in _devices(obj) for item in (device.get("capacity") or {}).values())


_BINDING_GATES = "DRADeviceBindingConditions+DRAResourceClaimDeviceStatus"
_BINDING = ("bindingConditions", "bindingFailureConditions")
_OF_CLASS: tuple[tuple[str, _Owners, tuple[str, ...]], ...] = (
    ("DRAExtendedResource", _spec, ("extendedResourceName",)),
)
_OF_CLAIM: tuple[tuple[str, _Owners, tuple[str, ...]], ...] = (
    ("DRAPrioritizedList", _requests, ("firstAvailable",)),
    ("DRAAdminAccess", _exact, ("adminAccess",)),
    ("DRADeviceTaints", _exact_or_alternative, ("tolerations",)),
    ("DRAConsumableCapacity", _exact_or_alternative, ("capacity",)),
    ("DRAConsumableCapacity", _constraints, ("distinctAttribute",)),
)
_OF_STATUS: tuple[tuple[str, _Owners, tuple[str, ...]], ...] = (
    ("DRAResourceClaimDeviceStatus", _status, ("devices",)),
    ("DRAAdminAccess", _results, ("adminAccess",)),
    ("DRAConsumableCapacity", _results, ("shareID", "consumedCapacity")),
    ("DRAConsumableCapacity", _device_statuses, ("shareID",)),
    ("DRADeviceBindingConditions", _results, _BINDING),
)
_OF_SLICE: tuple[tuple[str, _Owners, tuple[str, ...]], ...] = (
    ("DRADeviceTaints", _devices, ("taints",)),
    ("DRAPartitionableDevices", _spec, ("sharedCounters", "perDeviceNodeSelection")),
    ("DRAPartitionableDevices", _devices, ("consumesCounters", "nodeName", "nodeSelector", "allNodes")),
    (_BINDING_GATES, _devices, (*_BINDING, "bindsToNode")),
    ("DRAConsumableCapacity", _devices, ("allowMultipleAllocations",)),
    ("DRAConsumableCapacity", _capacities, ("requestPolicy",)),
    ("DRANodeAllocatableResources", _devices, ("nodeAllocatableResourceMappings",)),
    ("DRAListTypeAttributes", _attributes, ("ints", "bools", "strings", "versions")),
)

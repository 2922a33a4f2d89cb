"""Resource pools: the devices that the slices of drivers offer to a node. No I/O."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from types import MappingProxyType
from typing import Any, NamedTuple

from msgspec import field

from apiserver_stub.apimachinery.objects import Object
from apiserver_stub.cel.devices import device_value
from nodeagent.base.node_affinity import node_matches
from nodeagent.base.quantity import Quantity
from nodeagent.base.structs import MutableStruct, Struct


class DeviceId(NamedTuple):
    """Identity of a device."""

    driver: str
    pool: str
    device: str


CounterKey = tuple[str, str]
"""Counter set and counter."""


class Device(Struct, frozen=True, dict=True):
    """A device that is available on a node."""

    id: DeviceId
    spec: Object
    """The device in its slice, with the structure of ``v1``."""
    selector: Object | None
    """Selector of the nodes on which it is available, ``None`` for all nodes."""

    @cached_property
    def value(self) -> dict[str, Any]:
        """Value of the CEL variable."""
        return device_value(self.id.driver, self.spec)

    @property
    def taints(self) -> list[Object]:
        taints: list[Object] = self.spec.get("taints") or []
        return taints

    def attribute(self, name: str) -> Any:
        """Return the value of attribute *name*, with its type, ``None`` if the device does not have it."""
        attributes = self.spec.get("attributes") or {}
        found = attributes.get(name)
        domain, _, identifier = name.partition("/")
        if found is None and domain == self.id.driver:
            found = attributes.get(identifier)
        if not found:
            return None
        kind, value = next(iter(found.items()))
        return kind, tuple(value) if isinstance(value, list) else value

    def consumption(self) -> Iterator[tuple[CounterKey, int]]:
        """Yield the counters that the device consumes, with the amount in billionths."""
        for item in self.spec.get("consumesCounters") or ():
            yield from _counters(item.get("counterSet") or "", item)


class Pool(MutableStruct):
    """The slices of the latest generation of a pool, for one node."""

    driver: str
    name: str
    generation: int
    expected: int
    slices: int = 0
    devices: list[Device] = field(default_factory=list)
    """Devices that are available on the node."""
    all_devices: dict[str, Device] = field(default_factory=dict)
    """Devices by name, including those for other nodes, which consume the same counters."""
    counters: dict[CounterKey, int] = field(default_factory=dict)
    problem: str = ""

    @property
    def is_complete(self) -> bool:
        return self.slices >= self.expected and not self.problem


def pools_for(slices: Iterable[Object], node: str, labels: Mapping[str, str]) -> list[Pool]:
    """Return the pools with devices for *node*, by driver and name; *slices* have the structure of ``v1``."""
    return [pool for _, pool in sorted(pools_by_name(slices, node, labels).items()) if pool.devices]


def pools_by_name(
    slices: Iterable[Object], node: str = "", labels: Mapping[str, str] = MappingProxyType({})
) -> dict[tuple[str, str], Pool]:
    """Return all pools by driver and name; *slices* have the structure of ``v1``."""
    found: dict[tuple[str, str], Pool] = {}
    for item in sorted(slices, key=lambda item: str(item["metadata"].get("name"))):
        spec = item.get("spec") or {}
        pool_spec = spec.get("pool") or {}
        key = spec.get("driver") or "", pool_spec.get("name") or ""
        generation = pool_spec.get("generation") or 0
        pool = found.get(key)
        if pool is None or pool.generation < generation:
            pool = found[key] = Pool(*key, generation, pool_spec.get("resourceSliceCount") or 0)
        if pool.generation == generation:
            _add(pool, spec, node, labels)
    return found


def _add(pool: Pool, spec: Object, node: str, labels: Mapping[str, str]) -> None:
    pool.slices += 1
    for counters in spec.get("sharedCounters") or ():
        pool.counters.update(_counters(counters.get("name") or "", counters))
    per_device = bool(spec.get("perDeviceNodeSelection"))
    for item in spec.get("devices") or ():
        name = item.get("name") or ""
        owner = item if per_device else spec
        device = Device(DeviceId(pool.driver, pool.name, name), item, _node_selector(owner))
        if name in pool.all_devices:
            pool.problem = f"duplicate device name {name}"
        pool.all_devices[name] = device
        if _is_available(device.selector, node, labels):
            pool.devices.append(device)


def _counters(name: str, owner: Object) -> Iterator[tuple[CounterKey, int]]:
    for counter, amount in (owner.get("counters") or {}).items():
        yield (name, counter), Quantity.parse(str(amount.get("value") or "0")).nanos


def _node_selector(owner: Object) -> Object | None:
    if owner.get("nodeName"):
        return selector_of_node(owner["nodeName"])
    return owner.get("nodeSelector")


def selector_of_node(name: str) -> Object:
    """Return the selector of the node *name*."""
    field = {"key": "metadata.name", "operator": "In", "values": [name]}
    return {"nodeSelectorTerms": [{"matchFields": [field]}]}


def _is_available(selector: Object | None, node: str, labels: Mapping[str, str]) -> bool:
    return selector is None or node_matches({}, selector.get("nodeSelectorTerms") or (), labels, node)

"""Allocation of devices to the resource claims of a pod on one node. No I/O.

Devices are selected by backtracking in the order of requests, pools and devices, so that equal inputs have equal
results, except for the identifiers of shares. Pools with binding conditions come last.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from msgspec import field

from apiserver_stub.apimachinery.objects import Object
from apiserver_stub.cel import CelError
from apiserver_stub.cel.devices import selector
from apiserver_stub.scheduling.device_capacity import Amounts, consumed_capacity, suffices
from apiserver_stub.scheduling.device_pools import CounterKey, Device, DeviceId, Pool
from apiserver_stub.scheduling.device_results import ChosenDevice, DeviceRequest, allocation
from apiserver_stub.scheduling.device_taints import repels
from nodeagent.base.quantity import Quantity
from nodeagent.base.structs import MutableStruct, Struct

MAX_RESULTS = 32
"""Limit for the devices of one claim."""
MAX_STEPS = 20_000
"""Limit for the devices that one decision tries, so that it does not block the event loop."""


class AllocationError(Exception):
    """A claim cannot be evaluated; no node would allow it."""


class AllocationFeatures(Struct, frozen=True):
    """Feature gates of the allocation."""

    consumable_capacity: bool = True
    """Claims may share devices that permit multiple allocations."""
    binding_conditions: bool = True
    """Devices may have conditions that pods wait for."""


class DevicesInUse(Struct, frozen=True):
    """Devices of other claims, except for those with administrative access."""

    dedicated: frozenset[DeviceId] = frozenset()
    shared: Mapping[DeviceId, Amounts] = field(default_factory=dict)
    """Consumed capacity of devices that several claims may share."""


class _Slot(MutableStruct):
    """One device that is to be selected for a request; *first* is ``True`` for the first one of the request."""

    claim: int
    alternatives: Sequence[DeviceRequest]


class _Search(MutableStruct):
    in_use: set[DeviceId]
    shared: dict[DeviceId, dict[str, int]]
    shares: dict[DeviceId, int]
    """Number of allocations of each shared device."""
    consumed: dict[tuple[str, str, CounterKey], int]
    chosen: list[list[ChosenDevice]]
    """Devices by claim."""
    steps: int = 0
    exhausted: bool = False


class Allocator(Struct, frozen=True):
    """Allocates devices of *pools* on *node*."""

    node: str
    pools: Sequence[Pool]
    classes: Mapping[str, Object]
    """Device classes, by name."""
    in_use: DevicesInUse
    features: AllocationFeatures = field(default_factory=AllocationFeatures)
    _matches: dict[tuple[str, DeviceId], bool] = field(default_factory=dict)

    def allocate(self, claims: Sequence[Object]) -> list[Object] | None:
        """Return the allocation of each claim, ``None`` if the devices are not available.

        :param claims: claims with the structure of ``v1``.
        :raises AllocationError: a selector fails, a class is missing, or too many devices would have to be tried.
        """
        requests = [list(self._requests_of(claim)) for claim in claims]
        search = _Search(
            set(self.in_use.dedicated),
            {id: dict(amounts) for id, amounts in self.in_use.shared.items()},
            dict.fromkeys(self.in_use.shared, 1),
            self._initial_consumption(),
            [[] for _ in claims],
        )
        slots = [_Slot(index, alternatives) for index, items in enumerate(requests) for alternatives in items]
        if not self._select(search, claims, slots, 0):
            if search.exhausted:
                raise AllocationError(f"more than {MAX_STEPS} devices would have to be tried")
            return None
        return [
            allocation(claim, chosen, self.classes, self.node)
            for claim, chosen in zip(claims, search.chosen, strict=True)
        ]

    def _requests_of(self, claim: Object) -> Iterator[list[DeviceRequest]]:
        for request in ((claim.get("spec") or {}).get("devices") or {}).get("requests") or ():
            name = request.get("name") or ""
            if request.get("exactly"):
                yield [self._request(claim, name, name, request["exactly"])]
            else:
                yield [
                    self._request(claim, f"{name}/{item.get('name')}", name, item)
                    for item in request.get("firstAvailable") or ()
                ]

    def _request(self, claim: Object, name: str, parent: str, spec: Object) -> DeviceRequest:
        class_name = spec.get("deviceClassName") or ""
        found = self.classes.get(class_name)
        if found is None:
            raise AllocationError(f"request {name}: device class {class_name} does not exist")
        if spec.get("capacity") and not self.features.consumable_capacity:
            kind = "request" if name == parent else "subrequest"
            text = "has capacity requests, but the DRAConsumableCapacity feature is disabled"
            raise AllocationError(f"claim {claim['metadata']['name']}, {kind} {name}: {text}")
        needs_all = spec.get("allocationMode") == "All"
        candidates = []
        for pool in sorted(self.pools, key=_has_binding_conditions):
            selected = [device for device in pool.devices if self._is_selected(claim, found, spec, device)]
            if selected and not pool.is_complete:
                if needs_all:
                    reason = pool.problem or "is currently incomplete"
                    text = f"request {name}: asks for all devices, "  # wording: ok
                    text += f"but resource pool {pool.driver}/{pool.name} {reason}"
                    raise AllocationError(text)
                continue
            if needs_all:
                selected = [
                    device for device in selected if self._capacity(spec, device, self.in_use.shared) is not None
                ]
            candidates += selected
        return DeviceRequest(name, parent, spec, candidates, needs_all, len(candidates) if needs_all else spec["count"])

    def _is_selected(self, claim: Object, device_class: Object, spec: Object, device: Device) -> bool:
        if device.spec.get("bindingConditions") and not self.features.binding_conditions:
            return False
        owner = f"class {device_class['metadata']['name']}"
        in_class = self._match((device_class.get("spec") or {}).get("selectors"), device, owner)
        if not in_class or not self._match(spec.get("selectors"), device, f"claim {claim['metadata']['name']}"):
            return False
        if self._capacity(spec, device, {}) is None:
            return False
        return not any(repels(taint, spec.get("tolerations") or ()) for taint in device.taints)

    def _is_shared(self, device: Device) -> bool:
        return self.features.consumable_capacity and bool(device.spec.get("allowMultipleAllocations"))

    def _capacity(
        self, spec: Object, device: Device, used: Mapping[DeviceId, Amounts]
    ) -> Mapping[str, Quantity] | None:
        """Return the capacity that a request consumes, ``None`` if that of the device does not suffice."""
        if not self.features.consumable_capacity:
            return {}
        capacities = device.spec.get("capacity") or {}
        found = consumed_capacity((spec.get("capacity") or {}).get("requests") or {}, capacities)
        return found if found is not None and suffices(capacities, found, used.get(device.id, {})) else None

    def _match(self, selectors: Sequence[Object] | None, device: Device, owner: str) -> bool:
        for index, item in enumerate(selectors or ()):
            text = (item.get("cel") or {}).get("expression") or ""
            key = text, device.id
            if key not in self._matches:
                try:
                    self._matches[key] = selector(text).matches(device.value)
                except CelError as error:
                    raise AllocationError(f"{owner}: selector #{index}: CEL runtime error: {error}") from None
            if not self._matches[key]:
                return False
        return True

    def _select(self, search: _Search, claims: Sequence[Object], slots: Sequence[_Slot], position: int) -> bool:
        if position == len(slots):
            return True
        slot = slots[position]
        for request in slot.alternatives:
            if not request.candidates or (request.needs_all and not self._takes_all(search, request)):
                continue
            if self._fill(search, claims, slots, position, request, 0, request.count):
                return True
        return False

    def _takes_all(self, search: _Search, request: DeviceRequest) -> bool:
        return request.is_admin or not any(device.id in search.in_use for device in request.candidates)

    def _fill(
        self,
        search: _Search,
        claims: Sequence[Object],
        slots: Sequence[_Slot],
        position: int,
        request: DeviceRequest,
        start: int,
        missing: int,
    ) -> bool:
        """Select *missing* devices for *request* from the candidates after *start*, then those of the next slots."""
        if not missing:
            return self._select(search, claims, slots, position + 1)
        claim = slots[position].claim
        chosen = search.chosen[claim]
        if len(chosen) + missing > MAX_RESULTS or len(request.candidates) - start < missing:
            return False
        for index in range(start, len(request.candidates)):
            if search.steps >= MAX_STEPS:
                search.exhausted = True
                return False
            search.steps += 1
            device = request.candidates[index]
            if self._take(search, claims[claim], chosen, request, device):
                if self._fill(search, claims, slots, position, request, index + 1, missing - 1):
                    return True
                self._give_back(search, chosen)
            if request.needs_all:
                return False
        return False

    def _take(
        self, search: _Search, claim: Object, chosen: list[ChosenDevice], request: DeviceRequest, device: Device
    ) -> bool:
        capacity = self._capacity(request.spec, device, search.shared)
        if capacity is None:
            return False
        is_shared = self._is_shared(device)
        if is_shared:
            if device.id in search.in_use or not (search.shares.get(device.id) or self._consume(search, device, 1)):
                return False
            _share(search, device, capacity, 1)
        elif request.is_admin:
            if any(item.device.id == device.id for item in chosen):
                return False
        elif device.id in search.in_use or device.id in search.shares or not self._consume(search, device, 1):
            return False
        else:
            search.in_use.add(device.id)
        chosen.append(ChosenDevice(request, device, capacity if is_shared else None))
        if all(_is_fulfilled(item, chosen) for item in claim["spec"]["devices"].get("constraints") or ()):
            return True
        self._give_back(search, chosen)
        return False

    def _give_back(self, search: _Search, chosen: list[ChosenDevice]) -> None:
        last = chosen.pop()
        if last.capacity is not None:
            _share(search, last.device, last.capacity, -1)
            if last.device.id not in search.shares:
                self._consume(search, last.device, -1)
        elif not last.request.is_admin:
            search.in_use.discard(last.device.id)
            self._consume(search, last.device, -1)

    def _initial_consumption(self) -> dict[tuple[str, str, CounterKey], int]:
        consumed: dict[tuple[str, str, CounterKey], int] = {}
        for pool in self.pools:
            for name, device in pool.all_devices.items():
                id = DeviceId(pool.driver, pool.name, name)
                if id in self.in_use.dedicated or id in self.in_use.shared:
                    for key, amount in device.consumption():
                        index = (pool.driver, pool.name, key)
                        consumed[index] = consumed.get(index, 0) + amount
        return consumed

    def _consume(self, search: _Search, device: Device, sign: int) -> bool:
        """Add the counters of *device* to those consumed; return ``False`` if they do not suffice."""
        needed = [((device.id.driver, device.id.pool, key), amount) for key, amount in device.consumption()]
        if sign > 0 and needed:
            pool = next(item for item in self.pools if (item.driver, item.name) == device.id[:2])
            if any(search.consumed.get(key, 0) + amount > pool.counters.get(key[2], 0) for key, amount in needed):
                return False
        for key, amount in needed:
            search.consumed[key] = search.consumed.get(key, 0) + sign * amount
        return True


def _share(search: _Search, device: Device, capacity: Mapping[str, Quantity], sign: int) -> None:
    """Add an allocation of a shared device, or remove it."""
    used = search.shared.setdefault(device.id, {})
    for name, amount in capacity.items():
        used[name] = used.get(name, 0) + sign * amount.nanos
    search.shares[device.id] = search.shares.get(device.id, 0) + sign
    if not search.shares[device.id]:
        del search.shares[device.id], search.shared[device.id]


def _has_binding_conditions(pool: Pool) -> bool:
    return any(device.spec.get("bindingConditions") for device in pool.devices)


def _is_fulfilled(constraint: Object, chosen: Sequence[ChosenDevice]) -> bool:
    names = constraint.get("requests") or ()
    devices = [
        item.device for item in chosen if not names or item.request.name in names or item.request.parent in names
    ]
    if attribute := constraint.get("matchAttribute"):
        values = [device.attribute(attribute) for device in devices]
        return all(value is not None and value == values[0] for value in values)
    values = [device.attribute(constraint.get("distinctAttribute") or "") for device in devices]
    return None not in values and len(set(values)) == len(values)

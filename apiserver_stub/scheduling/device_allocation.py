"""Allocation of devices to the resource claims of a pod on one node. No I/O.

Devices are selected by backtracking in the order of requests, pools and devices, so that equal inputs have equal
results. Devices that several claims may share are allocated to one claim only, and devices with binding conditions are
not allocated.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from apiserver_stub.apimachinery.objects import Object
from apiserver_stub.cel import CelError
from apiserver_stub.cel.devices import selector
from apiserver_stub.scheduling.device_pools import CounterKey, Device, DeviceId, Pool, selector_of_node
from nodeagent.base.quantity import Quantity

MAX_RESULTS = 32
"""Limit for the devices of one claim."""
MAX_STEPS = 20_000
"""Limit for the devices that one decision tries, so that it does not block the event loop."""
_BLOCKING = ("NoSchedule", "NoExecute")


class AllocationError(Exception):
    """A claim cannot be evaluated; no node would allow it."""


@dataclass(frozen=True, slots=True)
class _Request:
    """A request or subrequest of a claim."""

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


@dataclass(slots=True)
class _Chosen:
    request: _Request
    device: Device


@dataclass(slots=True)
class _Slot:
    """One device that is to be selected for a request; *first* is ``True`` for the first one of the request."""

    claim: int
    alternatives: Sequence[_Request]


@dataclass(slots=True)
class _Search:
    in_use: set[DeviceId]
    consumed: dict[tuple[str, str, CounterKey], int]
    chosen: list[list[_Chosen]]
    """Devices by claim."""
    steps: int = 0
    exhausted: bool = False


@dataclass(frozen=True)
class Allocator:
    """Allocates devices of *pools* on *node*."""

    node: str
    pools: Sequence[Pool]
    classes: Mapping[str, Object]
    """Device classes, by name."""
    in_use: frozenset[DeviceId]
    """Devices of other claims."""
    _matches: dict[tuple[str, DeviceId], bool] = field(default_factory=dict)

    def allocate(self, claims: Sequence[Object]) -> list[Object] | None:
        """Return the allocation of each claim, ``None`` if the devices are not available.

        :param claims: claims with the structure of ``v1``.
        :raises AllocationError: a selector fails, a class is missing, or too many devices would have to be tried.
        """
        requests = [list(self._requests_of(claim)) for claim in claims]
        search = _Search(set(self.in_use), self._initial_consumption(), [[] for _ in claims])
        slots = [_Slot(index, alternatives) for index, items in enumerate(requests) for alternatives in items]
        if not self._select(search, claims, slots, 0):
            if search.exhausted:
                raise AllocationError(f"more than {MAX_STEPS} devices would have to be tried")
            return None
        return [self._result(claim, chosen) for claim, chosen in zip(claims, search.chosen, strict=True)]

    def _requests_of(self, claim: Object) -> Iterator[list[_Request]]:
        for request in ((claim.get("spec") or {}).get("devices") or {}).get("requests") or ():
            name = request.get("name") or ""
            if request.get("exactly"):
                yield [self._request(claim, name, name, request["exactly"])]
            else:
                yield [
                    self._request(claim, f"{name}/{item.get('name')}", name, item)
                    for item in request.get("firstAvailable") or ()
                ]

    def _request(self, claim: Object, name: str, parent: str, spec: Object) -> _Request:
        class_name = spec.get("deviceClassName") or ""
        found = self.classes.get(class_name)
        if found is None:
            raise AllocationError(f"request {name}: device class {class_name} does not exist")
        needs_all = spec.get("allocationMode") == "All"
        candidates = []
        for pool in self.pools:
            selected = [device for device in pool.devices if self._is_selected(claim, found, spec, device)]
            if selected and not pool.is_complete:
                if needs_all:
                    reason = pool.problem or "is currently incomplete"
                    text = f"request {name}: asks for all devices, "  # wording: ok
                    text += f"but resource pool {pool.driver}/{pool.name} {reason}"
                    raise AllocationError(text)
                continue
            candidates += selected
        return _Request(name, parent, spec, candidates, needs_all, len(candidates) if needs_all else spec["count"])

    def _is_selected(self, claim: Object, device_class: Object, spec: Object, device: Device) -> bool:
        if device.spec.get("bindingConditions"):
            return False
        owner = f"class {device_class['metadata']['name']}"
        in_class = self._match((device_class.get("spec") or {}).get("selectors"), device, owner)
        if not in_class or not self._match(spec.get("selectors"), device, f"claim {claim['metadata']['name']}"):
            return False
        for name, amount in ((spec.get("capacity") or {}).get("requests") or {}).items():
            capacity = device.capacity(name)
            if capacity is None or capacity.nanos < Quantity.parse(str(amount)).nanos:
                return False
        return not any(_is_repelled(taint, spec.get("tolerations") or ()) for taint in device.taints)

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

    def _takes_all(self, search: _Search, request: _Request) -> bool:
        return request.is_admin or not any(device.id in search.in_use for device in request.candidates)

    def _fill(
        self,
        search: _Search,
        claims: Sequence[Object],
        slots: Sequence[_Slot],
        position: int,
        request: _Request,
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
                self._give_back(search, chosen, request, device)
            if request.needs_all:
                return False
        return False

    def _take(self, search: _Search, claim: Object, chosen: list[_Chosen], request: _Request, device: Device) -> bool:
        if not request.is_admin:
            if device.id in search.in_use or not self._consume(search, device, 1):
                return False
            search.in_use.add(device.id)
        chosen.append(_Chosen(request, device))
        if all(_is_fulfilled(item, chosen) for item in claim["spec"]["devices"].get("constraints") or ()):
            return True
        self._give_back(search, chosen, request, device)
        return False

    def _give_back(self, search: _Search, chosen: list[_Chosen], request: _Request, device: Device) -> None:
        chosen.pop()
        if not request.is_admin:
            search.in_use.discard(device.id)
            self._consume(search, device, -1)

    def _initial_consumption(self) -> dict[tuple[str, str, CounterKey], int]:
        consumed: dict[tuple[str, str, CounterKey], int] = {}
        for pool in self.pools:
            for name, device in pool.all_devices.items():
                if DeviceId(pool.driver, pool.name, name) in self.in_use:
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

    def _result(self, claim: Object, chosen: Sequence[_Chosen]) -> Object:
        results = []
        for item in chosen:
            result: Object = {"request": item.request.name, **item.device.id._asdict()}
            if item.request.is_admin:
                result["adminAccess"] = True
            if item.request.spec.get("tolerations"):
                result["tolerations"] = item.request.spec["tolerations"]
            results.append(result)
        devices: Object = {"results": results}
        if config := list(self._configurations(claim, chosen)):
            devices["config"] = config
        allocation: Object = {"devices": devices}
        if any(item.device.selector is not None for item in chosen):
            # Devices of other scopes are available on this node too; a claim is never used on two nodes here.
            allocation["nodeSelector"] = selector_of_node(self.node)
        return allocation

    def _configurations(self, claim: Object, chosen: Sequence[_Chosen]) -> Iterator[Object]:
        requests = list({item.request.name: item.request for item in chosen}.values())
        for request in requests:
            device_class = self.classes[request.spec["deviceClassName"]]
            for config in (device_class.get("spec") or {}).get("config") or ():
                yield {"source": "FromClass", "requests": [request.name], "opaque": config["opaque"]}
        names = {name for request in requests for name in (request.name, request.parent)}
        for config in claim["spec"]["devices"].get("config") or ():
            if not config.get("requests") or names.intersection(config["requests"]):
                yield {"source": "FromClaim", **config}


def _is_fulfilled(constraint: Object, chosen: Sequence[_Chosen]) -> bool:
    names = constraint.get("requests") or ()
    devices = [
        item.device for item in chosen if not names or item.request.name in names or item.request.parent in names
    ]
    if attribute := constraint.get("matchAttribute"):
        values = [device.attribute(attribute) for device in devices]
        return all(value is not None and value == values[0] for value in values)
    values = [device.attribute(constraint.get("distinctAttribute") or "") for device in devices]
    return None not in values and len(set(values)) == len(values)


def _is_repelled(taint: Object, tolerations: Sequence[Object]) -> bool:
    return taint.get("effect") in _BLOCKING and not any(_tolerates(item, taint) for item in tolerations)


def _tolerates(toleration: Object, taint: Object) -> bool:
    for name in ("effect", "key"):
        if toleration.get(name) and toleration[name] != taint.get(name):
            return False
    if toleration.get("operator") == "Exists":
        return True
    return bool((toleration.get("value") or "") == (taint.get("value") or ""))

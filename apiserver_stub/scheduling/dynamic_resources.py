"""Filter by the resource claims of a pod, and the allocations that a scheduling decision requires. No I/O."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime

from msgspec import field

from apiserver_stub.apimachinery import objects
from apiserver_stub.apimachinery.objects import Object, dig
from apiserver_stub.scheduling.binding_conditions import BindingState, binding_state
from apiserver_stub.scheduling.device_allocation import AllocationError, AllocationFeatures, Allocator, DevicesInUse
from apiserver_stub.scheduling.device_pools import DeviceId, pools_for
from apiserver_stub.scheduling.device_taints import with_rules
from apiserver_stub.scheduling.extended_resources import ExtendedClaim, classes_by_resource, extended_claim
from apiserver_stub.scheduling.model import NodeInfo, PodInfo
from apiserver_stub.scheduling.node_filters import Rejection
from apiserver_stub.scheduling.pod_claims import can_be_reserved, is_owned_by, is_reserved_for
from nodeagent.base.node_affinity import node_matches
from nodeagent.base.quantity import Quantity
from nodeagent.base.structs import MutableStruct

DYNAMIC_RESOURCES = "DynamicResources"


class DeviceState(MutableStruct):
    """Device classes, resource slices, resource claims and taint rules by key, with the structure of ``v1``."""

    group: str
    class_resource: str = ""
    """Prefix of the extended resource of each device class; empty if claims do not provide extended resources."""
    extended_annotation: str = ""
    """Annotation of the claims for extended resources."""
    features: AllocationFeatures = field(default_factory=AllocationFeatures)
    classes: dict[str, Object] = field(default_factory=dict)
    slices: dict[str, Object] = field(default_factory=dict)
    claims: dict[str, Object] = field(default_factory=dict)
    rules: dict[str, Object] = field(default_factory=dict)

    def clear(self) -> None:
        for objects_by_key in (self.classes, self.slices, self.claims, self.rules):
            objects_by_key.clear()

    def devices_in_use(self) -> DevicesInUse:
        """Return the devices that are allocated to a claim, except for those with administrative access."""
        dedicated: set[DeviceId] = set()
        shared: dict[DeviceId, dict[str, int]] = {}
        for claim in self.claims.values():
            for result in dig(claim, ("status", "allocation", "devices", "results")) or ():
                if result.get("adminAccess"):
                    continue
                id = DeviceId(*(result.get(name) or "" for name in ("driver", "pool", "device")))
                if not (self.features.consumable_capacity and result.get("shareID")):
                    dedicated.add(id)
                    continue
                used = shared.setdefault(id, {})
                for name, amount in (result.get("consumedCapacity") or {}).items():
                    used[name] = used.get(name, 0) + Quantity.parse(str(amount)).nanos
        return DevicesInUse(frozenset(dedicated), shared)


class DevicePlan(MutableStruct):
    """Changes of claims before a pod is bound."""

    allocate: list[tuple[Object, Object]] = field(default_factory=list)
    """Claims, and their allocation."""
    reserve: list[Object] = field(default_factory=list)
    """Allocated claims that are not reserved for the pod yet."""
    create: tuple[Object, Object] | None = None
    """Specification and allocation of the claim for extended resources."""
    extended: ExtendedClaim = field(default_factory=ExtendedClaim)
    """Requests of the claim for extended resources."""
    existing: str = ""
    """Name of that claim if an earlier attempt has created it."""

    def extended_status(self, claim: str) -> Object:
        """Return the status of the pod about its *claim* for extended resources."""
        return self.extended.status(claim)


class PodDevices:
    """The resource claims of one pod during a decision.

    :ivar conflict: the reason why the pod fits on no node, ``None`` if its claims allow some.
    """

    def __init__(self, state: DeviceState, pod: PodInfo) -> None:
        self._state, self._plans = state, dict[str, DevicePlan]()
        self._pending: list[Object] = []
        self._allocated: list[Object] = []
        self._uid, self._extended = pod.uid, pod.extended
        self._classes = classes_by_resource(state.classes, state.class_resource) if state.class_resource else {}
        reason = next((text for text in map(self._sort, self._claims(pod)) if text), "")
        self.conflict = Rejection(DYNAMIC_RESOURCES, (reason,)) if reason else None

    def check(self, node: NodeInfo) -> Rejection | None:
        """Return why *node* cannot serve the claims; otherwise record the plan for it."""
        for claim in self._allocated:
            if not _is_usable(claim, node):
                return Rejection(DYNAMIC_RESOURCES, ("resourceclaim not available on the node",))
        plan = DevicePlan(reserve=[item for item in self._allocated if not is_reserved_for(item, self._uid)])
        plan.extended = extended_claim(self._extended, self._backed(node))
        pending, spec = list(self._pending), plan.extended.spec(self._classes)
        if plan.extended.requests:
            if (earlier := self._earlier_claim()) is not None:
                if not _is_usable(earlier, node):
                    return Rejection(DYNAMIC_RESOURCES, ("cannot schedule extended resource claim",))
                plan.existing = earlier["metadata"]["name"]
            else:
                pending.append({"metadata": {"name": "<extended-resources>"}, "spec": spec})
        if pending:
            state = self._state
            slices = with_rules(state.slices.values(), state.rules.values())
            pools, in_use = pools_for(slices, node.name, node.labels), state.devices_in_use()
            try:
                allocations = Allocator(node.name, pools, state.classes, in_use, state.features).allocate(pending)
            except AllocationError as error:
                return Rejection(DYNAMIC_RESOURCES, (str(error),))
            if allocations is None:
                return Rejection(DYNAMIC_RESOURCES, ("cannot allocate all claims",))
            plan.allocate = list(zip(self._pending, allocations, strict=False))
            if len(pending) > len(self._pending):
                plan.create = spec, allocations[-1]
        self._plans[node.name] = plan
        return None

    def plan(self, node: str) -> DevicePlan:
        """Return the changes for the pod on *node*, which :meth:`check` accepted."""
        return self._plans.get(node) or DevicePlan()

    def without_backed(self, pod: PodInfo, node: NodeInfo) -> PodInfo:
        """Return *pod* without the requests for extended resources that claims provide on *node*."""
        backed = self._backed(node)
        if not backed:
            return pod
        return replace(pod, requests={name: amount for name, amount in pod.requests.items() if name not in backed})

    def failed(self, now: datetime) -> list[Object]:
        """Return the claims of this pod alone whose devices do not become ready, so that others are allocated."""
        found = [item for item in self._conditioned(now, BindingState.FAILED) if is_reserved_for(item, self._uid)]
        return [item for item in found if len(dig(item, ("status", "reservedFor")) or ()) == 1]

    def waits(self, now: datetime) -> bool:
        """Return whether the drivers of allocated devices have not reported all binding conditions."""
        return bool(self._conditioned(now, BindingState.WAITING))

    def is_extended(self, claim: Object) -> bool:
        """Return whether *claim* is that of the extended resources."""
        return (claim["metadata"].get("annotations") or {}).get(self._state.extended_annotation) == "true"

    def _conditioned(self, now: datetime, state: BindingState) -> list[Object]:
        if not self._state.features.binding_conditions:
            return []
        earlier = self._earlier_claim() if self._extended else None
        claims = self._allocated if earlier is None else [*self._allocated, earlier]
        return [item for item in claims if binding_state(item, now) is state]

    def _backed(self, node: NodeInfo) -> frozenset[str]:
        """Return the requested resources of device classes that *node* does not provide itself."""
        return frozenset(
            item.resource
            for item in self._extended
            if item.resource in self._classes and not node.allocatable.get(item.resource)
        )

    def _earlier_claim(self) -> Object | None:
        """Return the claim for extended resources that was created before the pod could be bound."""
        for claim in self._state.claims.values():
            if self.is_extended(claim) and is_owned_by(claim, self._uid):
                return claim
        return None

    def _claims(self, pod: PodInfo) -> Iterator[Object | str]:
        """Yield the claims of *pod*, or the reason why one is not available."""
        for entry in pod.device_claims:
            if entry.claim is None:
                yield f'pod "{pod.namespace}/{pod.name}": ResourceClaim not created yet'
                return
            if not entry.claim:
                continue  # The pod does not need it.
            claim = self._state.claims.get(objects.key_of(pod.namespace, entry.claim))
            if claim is None:
                yield f'resourceclaim.{self._state.group} "{entry.claim}" not found'
            elif "deletionTimestamp" in claim["metadata"]:
                yield f'resourceclaim "{entry.claim}" is being deleted'
            elif entry.template and not is_owned_by(claim, pod.uid):
                name = f"{pod.namespace}/{entry.claim}"
                yield f"ResourceClaim {name} was not created for pod {pod.namespace}/{pod.name} (pod is not owner)"
            else:
                yield claim

    def _sort(self, claim: Object | str) -> str:
        """Sort a claim; return the reason why the pod cannot use it."""
        if isinstance(claim, str):
            return claim
        if dig(claim, ("status", "allocation")) is None:
            self._pending.append(claim)
        elif is_reserved_for(claim, self._uid) or can_be_reserved(claim):
            self._allocated.append(claim)
        else:
            return "resourceclaim in use"
        return ""


def _is_usable(claim: Object, node: NodeInfo) -> bool:
    """Return whether *claim* is allocated, with devices that are available on *node*."""
    allocation = dig(claim, ("status", "allocation"))
    terms = dig(allocation, ("nodeSelector", "nodeSelectorTerms"))
    return allocation is not None and (terms is None or node_matches({}, terms, node.labels, node.name))

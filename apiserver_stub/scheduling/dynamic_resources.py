"""Filter by the resource claims of a pod, and the allocations that a scheduling decision requires. No I/O."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from apiserver_stub.apimachinery import objects
from apiserver_stub.apimachinery.objects import Object, dig
from apiserver_stub.scheduling.device_allocation import AllocationError, Allocator
from apiserver_stub.scheduling.device_pools import DeviceId, pools_for
from apiserver_stub.scheduling.extended_resources import (
    ExtendedRequest,
    claim_spec,
    claim_status,
    classes_by_resource,
)
from apiserver_stub.scheduling.model import NodeInfo, PodInfo
from apiserver_stub.scheduling.node_filters import Rejection
from apiserver_stub.scheduling.pod_claims import can_be_reserved, is_owned_by, is_reserved_for
from nodeagent.base.node_affinity import node_matches

DYNAMIC_RESOURCES = "DynamicResources"


@dataclass
class DeviceState:
    """Device classes, resource slices and resource claims by key, with the structure of ``v1``."""

    group: str
    class_resource: str = ""
    """Prefix of the extended resource of each device class; empty if claims do not provide extended resources."""
    extended_annotation: str = ""
    """Annotation of the claims for extended resources."""
    classes: dict[str, Object] = field(default_factory=dict)
    slices: dict[str, Object] = field(default_factory=dict)
    claims: dict[str, Object] = field(default_factory=dict)

    def clear(self) -> None:
        for objects_by_key in (self.classes, self.slices, self.claims):
            objects_by_key.clear()

    def devices_in_use(self) -> Iterator[DeviceId]:
        """Yield the devices that are allocated to a claim, except for those with admin access."""
        for claim in self.claims.values():
            for result in dig(claim, ("status", "allocation", "devices", "results")) or ():
                if not result.get("adminAccess"):
                    yield DeviceId(*(result.get(name) or "" for name in ("driver", "pool", "device")))


@dataclass(slots=True)
class DevicePlan:
    """Changes of claims before a pod is bound."""

    allocate: list[tuple[Object, Object]] = field(default_factory=list)
    """Claims, and their allocation."""
    reserve: list[Object] = field(default_factory=list)
    """Allocated claims that are not reserved for the pod yet."""
    create: tuple[Object, Object] | None = None
    """Specification and allocation of the claim for extended resources."""
    extended: tuple[ExtendedRequest, ...] = ()
    """Requests that the claim for extended resources satisfies."""
    existing: str = ""
    """Name of that claim if an earlier attempt has created it."""

    def extended_status(self, claim: str) -> Object:
        """Return the status of the pod about its *claim* for extended resources."""
        return claim_status(claim, self.extended)


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
        plan.extended = tuple(self._backed(node))
        pending, spec = list(self._pending), claim_spec(plan.extended, self._classes)
        if plan.extended:
            if (earlier := self._earlier_claim()) is not None:
                if not _is_usable(earlier, node):
                    return Rejection(DYNAMIC_RESOURCES, ("cannot schedule extended resource claim",))
                plan.existing = earlier["metadata"]["name"]
            else:
                pending.append({"metadata": {"name": "<extended-resources>"}, "spec": spec})
        if pending:
            pools = pools_for(self._state.slices.values(), node.name, node.labels)
            in_use = frozenset(self._state.devices_in_use())
            try:
                allocations = Allocator(node.name, pools, self._state.classes, in_use).allocate(pending)
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
        backed = {request.resource for request in self._backed(node)}
        if not backed:
            return pod
        return replace(pod, requests={name: amount for name, amount in pod.requests.items() if name not in backed})

    def _backed(self, node: NodeInfo) -> Iterator[ExtendedRequest]:
        """Yield the requests for resources of device classes that *node* does not provide itself."""
        for request in self._extended:
            if request.resource in self._classes and not node.allocatable.get(request.resource):
                yield request

    def _earlier_claim(self) -> Object | None:
        """Return the claim for extended resources that was created before the pod could be bound."""
        for claim in self._state.claims.values():
            annotations = claim["metadata"].get("annotations") or {}
            if annotations.get(self._state.extended_annotation) == "true" and is_owned_by(claim, self._uid):
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

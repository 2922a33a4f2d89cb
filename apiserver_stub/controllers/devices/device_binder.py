"""Devices of pods that are scheduled: the state of their decisions, and the changes of claims before they are bound."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from apiserver_stub.apimachinery.objects import Object
from apiserver_stub.controllers.devices.writes import (
    DeviceNames,
    allocate,
    create_extended,
    deallocate,
    delete_extended,
    reserve_claim,
)
from apiserver_stub.scheduling.binding_conditions import has_binding_conditions
from apiserver_stub.scheduling.device_allocation import AllocationFeatures
from apiserver_stub.scheduling.dynamic_resources import DeviceState, PodDevices
from nodeagent.base.aio import Clock

if TYPE_CHECKING:
    from apiserver_stub.controllers.event_recorder import EventRecorder
    from apiserver_stub.scheduling.model import PodInfo
    from apiserver_stub.storage import Store
    from nodeagent.base.gates import FeatureGates
    from nodeagent.base.identity import Identity


class DeviceBinder:
    """Allocates the devices of pods for the scheduler.

    :ivar collections: objects by key, by collection; none if the kinds are not served.
    """

    def __init__(
        self,
        store: Store,
        identity: Identity,
        gates: FeatureGates,
        clock: Clock,
        events: EventRecorder,
        *,
        is_served: bool,
    ) -> None:
        self._store, self._names, self._clock, self._events = store, DeviceNames.of(identity), clock, events
        has_status = gates.enabled("DRAResourceClaimDeviceStatus")
        features = AllocationFeatures(
            gates.enabled("DRAConsumableCapacity"), gates.enabled("DRADeviceBindingConditions") and has_status
        )
        class_resource = self._names.class_resource if gates.enabled("DRAExtendedResource") else ""
        self._state = DeviceState(self._names.group, class_resource, self._names.extended, features)
        self._has_conditions = features.binding_conditions
        self.collections: dict[str, dict[str, Object]] = {}
        if is_served:
            self.collections = {
                self._names.classes: self._state.classes,
                self._names.slices: self._state.slices,
                self._names.claims: self._state.claims,
            }
            if gates.enabled("DRADeviceTaintRules"):
                self.collections[self._names.rules] = self._state.rules

    def clear(self) -> None:
        self._state.clear()

    def devices_of(self, pod: PodInfo) -> PodDevices | None:
        """Return the claims of *pod* for a decision, ``None`` if it has none."""
        used = bool(self.collections) and bool(pod.device_claims or pod.extended)
        return PodDevices(self._state, pod) if used else None

    async def release(self, devices: PodDevices, failed: Sequence[Object], pod: Object) -> None:
        """Deallocate claims whose devices did not become ready."""
        for claim in failed:
            if devices.is_extended(claim):
                await delete_extended(self._store, self._names, claim)
            else:
                await deallocate(self._store, self._names, claim, pod)

    async def bind(self, devices: PodDevices, node: str, pod: Object) -> Object | None:
        """Allocate and reserve the claims of *pod*; return the changes of its status.

        :returns: ``None`` if a claim has changed since the decision, or if a device is not ready.
        """
        plan = devices.plan(node)
        allocated = [*(allocation for _, allocation in plan.allocate), *([plan.create[1]] if plan.create else [])]
        if self._has_conditions:
            for allocation in allocated:
                allocation["allocationTimestamp"] = self._clock.wall().strftime("%Y-%m-%dT%H:%M:%SZ")
        for claim, allocation in plan.allocate:
            if not await allocate(self._store, self._names, claim, allocation, pod):
                return None
        for claim in plan.reserve:
            if not await reserve_claim(self._store, self._names, claim, pod):
                return None
        name = plan.existing
        if plan.create is not None:
            spec, allocation = plan.create
            name = await create_extended(self._store, self._names, spec, allocation, pod)
        if any(map(has_binding_conditions, allocated)):
            note = f"waiting for binding conditions for device on node {node}"
            self._events.record(pod, "Normal", "BindingConditionsPending", "Scheduling", note)
            return None
        if devices.waits(self._clock.wall()):
            return None
        return {"extendedResourceClaimStatus": plan.extended_status(name)} if name else {}

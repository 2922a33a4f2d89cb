"""Scheduler of a single-node cluster: bind pending pods to the only node, or report why they do not fit.

Without nodes, with several ready nodes, or while a kube-scheduler holds its lease, the scheduler is inactive, so that
it never races with another scheduler. ``--bind-pods-to-single-node=false`` disables it.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from apiserver_stub.apimachinery import objects
from apiserver_stub.apimachinery.device_versions import structured
from apiserver_stub.apimachinery.objects import Object, dig
from apiserver_stub.controllers.change_feed import ChangeFeed
from apiserver_stub.controllers.devices.device_binder import DeviceBinder
from apiserver_stub.controllers.event_recorder import EventRecorder
from apiserver_stub.controllers.leases import SCHEDULER, is_held
from apiserver_stub.controllers.volumes.writes import CLAIMS, VOLUMES, reserve, select_node
from apiserver_stub.kinds.nodes import is_ready
from apiserver_stub.kinds.pod_binding import BindingRules, bound, topology_labels
from apiserver_stub.scheduling.decision import PodResources, decide
from apiserver_stub.scheduling.dynamic_resources import DYNAMIC_RESOURCES
from apiserver_stub.scheduling.model import NodeInfo, NodeTaintKeys, SchedulingFeatures, read_pod
from apiserver_stub.scheduling.queue import PendingPods
from apiserver_stub.scheduling.state import ClusterState
from apiserver_stub.scheduling.volume_binding import BINDING, RESTRICTIONS, BindingPlan, PodVolumes, VolumeState
from apiserver_stub.scheduling.volume_names import VolumeNames
from apiserver_stub.storage import Keep, Outcome, Put, Record, StoreRejected, StoreUnavailable
from nodeagent.base.aio import Clock, SystemClock
from nodeagent.base.aio.waker import Waker
from nodeagent.base.identity import Identity

if TYPE_CHECKING:
    from apiserver_stub.storage import Store
    from nodeagent.base.gates import FeatureGates

_log = logging.getLogger(__name__)

NAME = "default-scheduler"
_PODS, _NODES, _NAMESPACES = "core/pods", "core/nodes", "core/namespaces"
_FINISHED = ("Succeeded", "Failed")
_FREED = ("NodePorts", "NodeResourcesFit", RESTRICTIONS, "PodTopologySpread", "InterPodAffinity")
"""Filters whose result a deleted pod may change."""
_JOINED = ("PodTopologySpread", "InterPodAffinity")
"""Filters whose result a new pod may change."""
_IDLE_SECONDS = 3600.0
_LEASE_CHECK_SECONDS = 30.0
_CONDITION_SECONDS = 30.0
"""Time after which a pod that waits for its devices is tried again."""


async def bind_to_single_node(
    store: Store,
    identity: Identity,
    event_ttl_seconds: int | None,
    gates: FeatureGates,
    *,
    allocates_devices: bool = False,
) -> None:
    """Schedule pending pods; runs until cancelled.

    :param allocates_devices: the kinds of dynamic resource allocation are served.
    """
    await Scheduler(store, identity, event_ttl_seconds, gates, allocates_devices=allocates_devices).run()


class Scheduler:
    """Controller of the pending pods of the default scheduler."""

    def __init__(
        self,
        store: Store,
        identity: Identity,
        event_ttl_seconds: int | None,
        gates: FeatureGates,
        clock: Clock | None = None,
        *,
        allocates_devices: bool = False,
    ) -> None:
        self._features = SchedulingFeatures(
            gates.enabled("TaintTolerationComparisonOperators"), gates.enabled("NodeDeclaredFeatures")
        )
        self._binding_rules = BindingRules.of(gates)
        self._observes_generations = gates.enabled("PodObservedGenerationTracking")
        self._store, self._identity, self._clock = store, identity, clock or SystemClock()
        self._taint_keys = NodeTaintKeys.of(identity)
        self._waker = Waker(self._clock)
        self._state, self._pending = ClusterState(), PendingPods()
        self._volumes = VolumeState(VolumeNames.of(identity), identity.label_domain)
        classes = identity.group("storage") + "/storageclasses"
        self._of_volumes = {
            VOLUMES: self._volumes.volumes,
            CLAIMS: self._volumes.claims,
            classes: self._volumes.classes,
        }
        self._events = EventRecorder(store, NAME, event_ttl_seconds, identity, clock)
        self._devices = DeviceBinder(store, identity, gates, self._clock, self._events, is_served=allocates_devices)
        self._of_devices = self._devices.collections
        names = [_NAMESPACES, _NODES, *self._of_volumes, *self._of_devices, _PODS]
        self._feed = ChangeFeed(store, names, self)

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(self._feed.run())
            group.create_task(self._events.run())
            group.create_task(self._schedule())

    # Changes

    def reset(self) -> None:
        self._state.clear()
        self._volumes.clear()
        self._devices.clear()
        self._pending.clear()

    def see(self, collection: str, record: Record, previous: Record | None) -> None:
        now, obj = self._clock.now(), objects.decode(record.data)
        if collection == _NAMESPACES:
            self._state.namespaces[record.key] = obj["metadata"].get("labels") or {}
        elif collection == _NODES:
            if self._state.set_node(NodeInfo(obj, self._taint_keys, ready=is_ready(obj))):
                self._pending.retry(now)
                self._waker.wake()
        elif collection in self._of_volumes:
            self._of_volumes[collection][record.key] = obj
            self._retry((BINDING, RESTRICTIONS))
        elif collection in self._of_devices:
            self._of_devices[collection][record.key] = structured(obj)
            self._retry((DYNAMIC_RESOURCES,))
        else:
            self._see_pod(record.key, obj, None if previous is None else objects.decode(previous.data), now)

    def remove(self, collection: str, record: Record) -> None:
        if collection == _NAMESPACES:
            self._state.namespaces.pop(record.key, None)
        elif collection == _NODES:
            self._state.remove_node(record.key)
            self._pending.retry(self._clock.now())
            self._waker.wake()
        elif collection in self._of_volumes:
            self._of_volumes[collection].pop(record.key, None)
            self._retry((BINDING, RESTRICTIONS))
        elif collection in self._of_devices:
            self._of_devices[collection].pop(record.key, None)
            self._retry((DYNAMIC_RESOURCES,))
        else:
            self._pending.remove(record.key)
            self._release(record.key)

    def _see_pod(self, key: str, pod: Object, previous: Object | None, now: float) -> None:
        if waits(pod):
            self._release(key)
            before = previous if key in self._pending else None
            if before is None or _decision_inputs(before) != _decision_inputs(pod):
                spec, created = pod["spec"], pod["metadata"].get("creationTimestamp") or ""
                self._pending.add(key, spec.get("priority") or 0, created, now)
                self._waker.wake()
            return
        self._pending.remove(key)
        if not pod["spec"].get("nodeName") or dig(pod, ("status", "phase")) in _FINISHED:
            self._release(key)
            return
        info, before_info = read_pod(pod, self._features), self._state.assigned(key)
        self._state.assign(key, info)
        if before_info is None:
            self._retry(_JOINED)
        elif (before_info.labels, before_info.deleting) != (info.labels, info.deleting):
            self._retry(_FREED)

    def _release(self, key: str) -> None:
        if self._state.release(key) is not None:
            self._retry(_FREED)

    def _retry(self, filters: tuple[str, ...]) -> None:
        self._pending.retry(self._clock.now(), filters)
        self._waker.wake()

    # Pods

    async def _schedule(self) -> None:
        while True:
            await self._feed.catch_up()
            now = self._clock.now()
            if self._is_left_to_others():
                await self._waker.wait(_LEASE_CHECK_SECONDS)
            elif (key := self._pending.pop(now)) is not None:
                await self._try(key)
                await asyncio.sleep(0)  # Neither a decision nor an unchanged condition awaits anything.
            else:
                due = self._pending.next_due(now)
                await self._waker.wait(_IDLE_SECONDS if due is None else due)

    def _is_left_to_others(self) -> bool:
        nodes = self._state.nodes.values()
        if not nodes or sum(node.ready and not node.unschedulable for node in nodes) > 1:
            return True
        return is_held(self._store, SCHEDULER, self._clock.wall(), self._identity)

    async def _try(self, key: str) -> None:
        record = self._store.collection(_PODS).get(key)
        pod: Object = {} if record is None else objects.decode(record.data)
        if not pod or not waits(pod):
            self._pending.remove(key)
            return
        try:
            await self._bind_or_report(key, pod)
        except LookupError:
            self._pending.remove(key)  # Deleted since it was queued.
        except (StoreUnavailable, StoreRejected) as error:
            self._pending.postpone(key, self._clock.now())
            _log.warning("Failed to schedule pod, will retry", extra={"pod": key, "err": error})
        except Exception as error:
            # One malformed pod must not block the scheduling of all others.
            self._pending.postpone(key, self._clock.now())
            _log.error("Failed to schedule pod, will retry", extra={"pod": key, "err": error}, exc_info=error)

    async def _bind_or_report(self, key: str, pod: Object) -> None:
        """Bind *pod*, or report why it does not fit.

        :raises LookupError: it is deleted.
        """
        info = read_pod(pod, self._features)
        volumes = PodVolumes(self._volumes, info, self._state.pods) if info.claims else None
        devices = self._devices.devices_of(info)
        now = self._clock.now()
        # Recorded before the writes: the claims may change while they are awaited.
        if devices is not None and (failed := devices.failed(self._clock.wall())):
            self._pending.wait_for(key, (DYNAMIC_RESOURCES,), now)
            await self._devices.release(devices, failed, pod)
            return
        decision = decide(self._state, info, PodResources(volumes, devices))
        node = self._choose(decision.feasible)
        if node and volumes is not None and (plan := volumes.plan(node)):
            # Recorded first: the claims may be bound while the writes are awaited.
            self._pending.wait_for(key, (BINDING,), self._clock.now())
            await self._bind_volumes(plan, node)
            return
        changes: Object = {}
        if node and devices is not None:
            self._pending.wait_for(key, (DYNAMIC_RESOURCES,), now, _CONDITION_SECONDS)
            bound_devices = await self._devices.bind(devices, node, pod)
            if bound_devices is None:
                return
            changes = bound_devices
        if node:
            if await self._bind(key, pod, node, changes):
                metadata = pod["metadata"]
                note = f"Successfully assigned {metadata['namespace']}/{metadata['name']} to {node}"
                self._events.record(pod, "Normal", "Scheduled", "Binding", note)
            return
        self._pending.park(key, decision.filters, self._clock.now())
        if decision.message:
            self._events.record(pod, "Warning", "FailedScheduling", "Scheduling", decision.message)
            await self._report(key, decision.message)

    async def _bind_volumes(self, plan: BindingPlan, node: str) -> None:
        """Request the bindings of *plan*; the pod is bound once they are complete."""
        for volume, claim in plan.static:
            await reserve(self._store, volume, claim, self._volumes.names)
        for claim in plan.provision:
            await select_node(self._store, claim, node, self._volumes.names)

    def _choose(self, feasible: tuple[str, ...]) -> str:
        """Return the node to bind to: the only ready one, or the only feasible one; empty if there are several."""
        ready = [name for name in feasible if self._state.nodes[name].ready]
        names = ready or feasible
        return names[0] if len(names) == 1 else ""

    async def _bind(self, key: str, seen: Object, node: str, changes: Object) -> bool:
        """Bind the pod to *node* with *changes* of its status; return whether it was still pending."""
        new: Object | None = None
        record = self._store.collection(_NODES).get(node)
        labels = topology_labels(None if record is None else objects.decode(record.data), self._identity)

        def assign(current: Record | None) -> Outcome:
            nonlocal new
            new = None
            if current is None:
                raise LookupError(key)
            pod: Object = objects.decode(current.data)
            if not waits(pod) or pod["metadata"].get("uid") != seen["metadata"].get("uid"):
                return Keep()
            new = bound(pod, node, self._binding_rules, labels)
            new["status"] |= changes
            return Put(objects.encode_for_store(new))

        await self._store.update(_PODS, key, assign)
        if new is None:
            return False
        self._pending.remove(key)
        info = read_pod(new, self._features)
        self._state.assign(key, info)  # Readers may see the binding only after the next decision.
        return True

    async def _report(self, key: str, message: str) -> None:
        """Set the ``PodScheduled`` condition of a pod that fits on no node."""

        def set_condition(current: Record | None) -> Outcome:
            if current is None:
                raise LookupError(key)
            pod: Object = objects.decode(current.data)
            if not waits(pod):
                return Keep()
            generation = pod["metadata"].get("generation") if self._observes_generations else None
            new = with_condition(pod, "Unschedulable", message, generation)
            return Keep() if new == pod else Put(objects.encode_for_store(new))

        await self._store.update(_PODS, key, set_condition)


def waits(pod: Object) -> bool:
    """Return whether *pod* waits for this scheduler."""
    spec = pod["spec"]
    return (
        not spec.get("nodeName")
        and spec.get("schedulerName") == NAME
        and not spec.get("schedulingGates")
        and dig(pod, ("status", "phase")) not in _FINISHED
        and "deletionTimestamp" not in pod["metadata"]
    )


def with_condition(pod: Object, reason: str, message: str, generation: int | None = None) -> Object:
    """Return *pod* with a false ``PodScheduled`` condition; the transition time is kept if it was false before.

    :param generation: generation of the spec to which the condition applies.
    """
    status = pod.get("status") or {}
    conditions: list[Object] = list(status.get("conditions") or ())
    index = next((i for i, item in enumerate(conditions) if item.get("type") == "PodScheduled"), None)
    before: Object = {} if index is None else conditions[index]
    since = before.get("lastTransitionTime") if before.get("status") == "False" else None
    condition: Object = {
        "type": "PodScheduled",
        **({"observedGeneration": generation} if generation else {}),
        "status": "False",
        "lastProbeTime": None,
        "lastTransitionTime": since or objects.now(),
        "reason": reason,
        "message": message,
    }
    if index is None:
        conditions.append(condition)
    else:
        conditions[index] = condition
    return {**pod, "status": {**status, "conditions": conditions}}


def _decision_inputs(pod: Object) -> Object:
    """Return the fields that a decision depends on; changes of other fields do not trigger another attempt."""
    metadata = pod["metadata"]
    claims = dig(pod, ("status", "resourceClaimStatuses"))
    return {"labels": metadata.get("labels"), "spec": pod["spec"], "uid": metadata.get("uid"), "claims": claims}

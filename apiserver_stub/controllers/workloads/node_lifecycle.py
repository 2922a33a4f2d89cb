"""Node lifecycle controller: nodes without a heartbeat become NotReady, and are tainted so that their pods move."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import ClassVar

from apiserver_stub.apimachinery import objects
from apiserver_stub.apimachinery.objects import Object
from apiserver_stub.controllers.plugin import Controller, ControllerContext
from apiserver_stub.controllers.views import LeaseView, NodeView, PodView, View
from apiserver_stub.controllers.workloads.owners import seen
from nodeagent.base.identity import Identity
from nodeagent.base.structs import MutableStruct

_log = logging.getLogger(__name__)

MONITOR_SECONDS = 5.0
GRACE_SECONDS = 40.0
"""Time without a heartbeat after which the state of a node is unknown."""
STARTUP_GRACE_SECONDS = 60.0
"""The same time for a node that has not reported its state yet."""
EVICTION_SECONDS = 10.0
"""Minimum time between two nodes whose pods start to be evicted."""
_NODES, _PODS = "core/nodes", "core/pods"
_CONDITIONS = ("Ready", "MemoryPressure", "DiskPressure", "PIDPressure")
_STOPPED, _NEVER = "Kubelet stopped posting node status.", "Kubelet never posted node status."
_STEP = 50


class _Heartbeat(MutableStruct):
    """Latest heartbeat of a node, and the monotonic time at which it was seen."""

    value: tuple[str, str]
    """Renewal of the lease, and heartbeat of the condition Ready."""
    at: float
    node: NodeView


class NodeLifecycle(Controller):
    """Nodes.

    Heartbeats are timed by the clock of this server, so that clocks of nodes may differ, and that nodes have the grace
    period after a restart of the server. While all nodes are NotReady, the problem is assumed to be that of the
    server or the network, and no pods are evicted.
    """

    name, alias = "node-lifecycle-controller", "nodelifecycle"
    resources = ("nodes",)
    views: ClassVar[Mapping[str, type[View]]] = {_NODES: NodeView, _PODS: PodView}

    @classmethod
    def views_of(cls, identity: Identity) -> Mapping[str, type[View]]:
        return {**cls.views, _leases(identity): LeaseView}

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self._writer, self._events = context.writer(self.name), context.events(self.name)
        self._nodes = self._writer.resource("", "v1", "nodes")
        self._pods = self._writer.resource("", "v1", "pods")
        self._leases = _leases(context.identity)
        names = (("False", "not-ready"), ("Unknown", "unreachable"))
        self._keys = {status: context.identity.label(name, "node") for status, name in names}
        self._heartbeats: dict[str, _Heartbeat] = {}
        self._tainted_at: float | None = None
        self._failing = False
        self._lost: set[str] = set()
        """Nodes that were Ready until their heartbeat stopped, and whose pods have to be marked."""

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(self._events.run())
            group.create_task(self._monitor())

    async def _monitor(self) -> None:
        while True:
            await self.context.leadership.acquired()
            await self.context.index.catch_up()
            try:
                await self._check()
            except Exception as error:  # One node, or a store without space, must not stop the monitor.
                if not self._failing:
                    _log.warning("Failed to update the state of nodes, will retry", extra={"err": error})
                self._failing = True
            else:
                self._failing = False
            await self.context.clock.sleep(MONITOR_SECONDS)

    async def _check(self) -> None:
        """Update the conditions and taints of all nodes."""
        nodes: list[NodeView] = self.context.index.all(_NODES)
        self._drop_deleted(nodes)
        states: dict[str, str] = {}
        for number, node in enumerate(nodes):
            states[node.metadata.name] = await self._state_of(node)
            if number % _STEP == _STEP - 1:
                await asyncio.sleep(0)
        evicts = any(state == "True" for state in states.values())
        for number, node in enumerate(nodes):
            state = states[node.metadata.name]
            if state:
                await self._set_taint(node, state if evicts else "True")
            if node.metadata.name in self._lost:
                await self._mark_pods(node)
                self._lost.discard(node.metadata.name)
            if number % _STEP == _STEP - 1:
                await asyncio.sleep(0)

    def _drop_deleted(self, nodes: Sequence[NodeView]) -> None:
        for name in self._heartbeats.keys() - {node.metadata.name for node in nodes}:
            node = self._heartbeats.pop(name).node
            self._record(node, "Normal", "RemovingNode", f"Node {name} event: Removing Node {name} from Controller")
            self._lost.discard(name)

    async def _state_of(self, node: NodeView) -> str:
        """Return the status of the condition Ready, after it was set to Unknown if the heartbeat has stopped.

        It is empty for a new node that has not reported the condition.
        """
        name, now = node.metadata.name, self.context.clock.now()
        key = objects.key_of(self.context.identity.node_lease_namespace, name)
        lease = self.context.index.get(self._leases, key)
        ready = next((item for item in node.status.conditions or () if item.type == "Ready"), None)
        unknown = ready is not None and ready.status == "Unknown"
        beat = "" if unknown or ready is None else ready.heartbeat_at or ""
        value = (lease.spec.renewed_at or "" if lease is not None else "", beat)
        known = self._heartbeats.get(name)
        if known is None:
            text = f"Node {name} event: Registered Node {name} in Controller"
            self._record(node, "Normal", "RegisteredNode", text)
        if known is None or (value != known.value and (value[0] != known.value[0] or beat)):
            self._heartbeats[name] = _Heartbeat(value, now, node)
            return ready.status if ready is not None else ""
        grace = STARTUP_GRACE_SECONDS if ready is None else GRACE_SECONDS
        if now - known.at <= grace or unknown:
            return ready.status if ready is not None else ""
        await self._set_unknown(node, known)
        return "Unknown"

    async def _set_unknown(self, node: NodeView, known: _Heartbeat) -> None:
        time = _time(self.context.clock.wall())

        def edit(obj: Object) -> None:
            status = obj.setdefault("status", {})
            conditions = list(status.get("conditions") or ())
            for kind in _CONDITIONS:
                old = next((item for item in conditions if item.get("type") == kind), None)
                if old is None:
                    new = {"type": kind, "status": "Unknown", "reason": "NodeStatusNeverUpdated", "message": _NEVER}
                    created = obj["metadata"].get("creationTimestamp")
                    conditions.append({**new, "lastHeartbeatTime": created, "lastTransitionTime": time})
                elif old.get("status") != "Unknown":
                    changed = {"status": "Unknown", "reason": "NodeStatusUnknown", "message": _STOPPED}
                    conditions[conditions.index(old)] = {**old, **changed, "lastTransitionTime": time}
            status["conditions"] = conditions

        was_ready = node.condition("Ready") == "True"
        if await self._writer.change(self._nodes, seen(node), edit) is not None and was_ready:
            name = node.metadata.name
            self._record(node, "Normal", "NodeNotReady", f"Node {name} status is now: NodeNotReady")
            self._lost.add(name)
        known.value = known.value[0], ""

    async def _set_taint(self, node: NodeView, state: str) -> None:
        """Set the NoExecute taint of a node that is not ready, and remove those that do not apply."""
        key, keys = self._keys.get(state), set(self._keys.values())
        current = {taint.get("key") for taint in node.spec.taints or () if taint.get("effect") == "NoExecute"} & keys
        if current == ({key} if key else set()):
            return
        now = self.context.clock.now()
        if key is not None and not current:
            if self._tainted_at is not None and now - self._tainted_at < EVICTION_SECONDS:
                return
            self._tainted_at = now
        time = _time(self.context.clock.wall())

        def edit(obj: Object) -> None:
            spec = obj.setdefault("spec", {})
            taints = [
                item
                for item in spec.get("taints") or ()
                if item.get("effect") != "NoExecute" or item.get("key") not in keys or item.get("key") == key
            ]
            if key is not None and not any(item.get("effect") == "NoExecute" and item["key"] == key for item in taints):
                taints.append({"key": key, "effect": "NoExecute", "timeAdded": time})
            if taints:
                spec["taints"] = taints
            else:
                spec.pop("taints", None)

        await self._writer.change(self._nodes, seen(node), edit)

    async def _mark_pods(self, node: NodeView) -> None:
        """Set the condition Ready of the pods of a node that is not ready to False, so that they get no traffic."""
        time = _time(self.context.clock.wall())

        def edit(obj: Object) -> None:
            for item in (obj.get("status") or {}).get("conditions") or ():
                if item.get("type") == "Ready" and item.get("status") == "True":
                    item |= {"status": "False", "lastTransitionTime": time}

        for pod in self.context.index.all(_PODS):
            if pod.spec.node_name != node.metadata.name or not pod.ready:
                continue
            if await self._writer.change(self._pods, seen(pod), edit) is not None:
                obj = {"kind": "Pod", "apiVersion": "v1", **seen(pod)}
                self._events.record(obj, "Warning", "NodeNotReady", "", "Node is not ready")

    def _record(self, node: NodeView, kind: str, reason: str, note: str) -> None:
        obj = {"kind": "Node", "apiVersion": "v1", "metadata": {"name": node.metadata.name, "uid": node.metadata.uid}}
        self._events.record(obj, kind, reason, "", note)


def _leases(identity: Identity) -> str:
    return f"{identity.group('coordination')}/leases"


def _time(now: datetime) -> str:
    return objects.format_time(now)

"""Taint eviction controller: deletes pods that do not tolerate a NoExecute taint of their node."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime, timedelta
from typing import ClassVar

from apiserver_stub.apimachinery import objects
from apiserver_stub.apimachinery.objects import Object, parse_time
from apiserver_stub.controllers.plugin import Controller, ControllerContext
from apiserver_stub.controllers.views import NodeView, PodView, View
from apiserver_stub.controllers.work_queue import WorkQueue
from apiserver_stub.controllers.workloads import conditions
from apiserver_stub.controllers.workloads.owners import seen
from apiserver_stub.scheduling.model import tolerates

_NODES, _PODS = "core/nodes", "core/pods"


class TaintEviction(Controller):
    """Pods on nodes with NoExecute taints."""

    name, alias = "taint-eviction-controller", "taint-eviction-controller"
    resources = ("nodes", "pods")
    views: ClassVar[Mapping[str, type[View]]] = {_NODES: NodeView, _PODS: PodView}

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self._writer, self._events = context.writer(self.name), context.events(self.name)
        self._pods = self._writer.resource("", "v1", "pods")
        self._queue: WorkQueue[str] = WorkQueue(self.name, context.clock)
        self._marks = context.gates.enabled("PodDisruptionConditions")
        self._since: dict[tuple[str, str], datetime] = {}
        """Times at which taints without one were first seen, by node and key."""
        context.index.listen(_NODES, self._node_changed)
        context.index.listen(_PODS, self._pod_changed)

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(self._events.run())
            group.create_task(self._queue.run(self._process))

    def _node_changed(self, before: View | None, after: View | None) -> None:
        if not isinstance(after, NodeView):
            uid = before.metadata.uid if before is not None else ""
            self._since = {key: time for key, time in self._since.items() if key[0] != uid}
            return
        taints = _executing(after)
        if isinstance(before, NodeView) and _executing(before) == taints:
            return
        for pod in self.context.index.all(_PODS):
            if pod.spec.node_name == after.metadata.name:
                self._queue.add(pod.key)

    def _pod_changed(self, before: View | None, after: View | None) -> None:
        if isinstance(after, PodView):
            node = self.context.index.get(_NODES, after.spec.node_name)
            if node is not None and _executing(node):
                self._queue.add(after.key)

    async def _process(self, key: str) -> None:
        await self.context.leadership.acquired()
        await self.context.index.catch_up()
        pod = self.context.index.get(_PODS, key)
        node = self.context.index.get(_NODES, pod.spec.node_name) if pod is not None else None
        if pod is None or node is None or pod.deleting or not (taints := _executing(node)):
            return
        now = self.context.clock.wall()
        due = eviction_time(pod, taints, lambda taint: self._added(node, taint, now))
        if due is None:
            return
        left = (due - now).total_seconds()
        if left > 0:
            self._queue.add_after(key, left)
            return
        note = f"Marking for deletion Pod {pod.metadata.namespace}/{pod.metadata.name}"
        obj = {"kind": "Pod", "apiVersion": "v1", **seen(pod)}
        self._events.record(obj, "Normal", "TaintManagerEviction", "", note)
        if self._marks:
            await self._mark(pod, now)
        await self._writer.delete(self._pods, seen(pod)["metadata"])

    def _added(self, node: NodeView, taint: Object, now: datetime) -> datetime:
        time = parse_time(taint.get("timeAdded"))
        return time or self._since.setdefault((node.metadata.uid, taint.get("key", "")), now)

    async def _mark(self, pod: PodView, now: datetime) -> None:
        new = {
            "type": "DisruptionTarget",
            "status": "True",
            "lastProbeTime": None,
            "lastTransitionTime": objects.format_time(now),
            "reason": "DeletionByTaintManager",
            "message": "Taint manager: deleting due to NoExecute taint",
        }

        def edit(obj: Object) -> None:
            status = obj.setdefault("status", {})
            status["conditions"] = conditions.with_condition(status.get("conditions"), new)

        await self._writer.change(self._pods, seen(pod), edit)


def _executing(node: NodeView) -> list[Object]:
    """Return the taints of *node* that evict pods."""
    return [taint for taint in node.spec.taints or () if taint.get("effect") == "NoExecute"]


def eviction_time(pod: PodView, taints: Iterable[Object], added: Callable[[Object], datetime]) -> datetime | None:
    """Return the time at which *pod* is to be deleted because of *taints*, ``None`` if it tolerates them forever.

    The first toleration that matches a taint applies to it.

    :param added: returns the time at which a taint was added.
    """
    due: list[datetime] = []
    for taint in taints:
        toleration = next((item for item in pod.spec.tolerations or () if tolerates(item, taint)), None)
        start = added(taint)
        if toleration is None:
            return start
        if (seconds := toleration.get("tolerationSeconds")) is not None:
            due.append(start + timedelta(seconds=max(0, seconds)))
    return min(due, default=None)

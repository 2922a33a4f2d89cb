"""Pod garbage collector: deletes pods of deleted nodes, deleted pods without a node, and terminated pods.

Deleted pods of a node that is not ready and has the taint ``out-of-service`` do not wait for the agent. Of the
terminated pods, a number is retained; evicted ones are deleted first, and then the oldest ones.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from typing import ClassVar

from apiserver_stub.apimachinery.objects import Object
from apiserver_stub.controllers.plugin import Controller, ControllerContext
from apiserver_stub.controllers.views import FINISHED, NodeView, PodView, View
from apiserver_stub.controllers.workloads.owners import seen

_log = logging.getLogger(__name__)

CHECK_SECONDS = 20.0
QUARANTINE_SECONDS = 40.0
"""Time for which a node must not exist before its pods are deleted."""
MAX_TERMINATED = 12_500
_NODES, _PODS = "core/nodes", "core/pods"
_MAX_DELETIONS = 500


class PodGarbageCollector(Controller):
    """Pods that nothing else deletes."""

    name, alias = "pod-garbage-collector-controller", "podgc"
    resources = ("pods", "nodes")
    views: ClassVar[Mapping[str, type[View]]] = {_NODES: NodeView, _PODS: PodView}

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self._writer = context.writer(self.name)
        self._pods = self._writer.resource("", "v1", "pods")
        self._out_of_service = context.identity.label("out-of-service", "node")
        self._missing: dict[str, float] = {}
        """Monotonic times at which the nodes of pods were first missing."""

    async def run(self) -> None:
        while True:
            await self.context.clock.sleep(CHECK_SECONDS)
            await self.context.leadership.acquired()
            await self.context.index.catch_up()
            for pod in self._due()[:_MAX_DELETIONS]:
                try:
                    await self._delete(pod)
                except Exception as error:  # One pod must not stop the controller for all others.
                    fields = {"pod": pod.key, "err": error}
                    _log.warning("Failed to delete pod, will retry", extra=fields)
                await asyncio.sleep(0)  # Writes may not have yielded to the event loop.

    def _due(self) -> list[PodView]:
        """Return the pods to delete."""
        index, now = self.context.index, self.context.clock.now()
        pods: list[PodView] = index.all(_PODS)
        nodes = {pod.spec.node_name for pod in pods if pod.spec.node_name}
        gone = {name for name in nodes if index.get(_NODES, name) is None}
        self._missing = {name: self._missing.get(name, now) for name in gone}
        expired = {name for name, since in self._missing.items() if now - since >= QUARANTINE_SECONDS}
        silent = {"", None, *(name for name in nodes - gone if self._is_out_of_service(index.get(_NODES, name)))}
        due = [pod for pod in pods if pod.spec.node_name in expired or (pod.deleting and pod.spec.node_name in silent)]
        terminated = [pod for pod in pods if pod.status.phase in FINISHED and not pod.deleting]
        terminated.sort(key=lambda pod: (not _is_evicted(pod), pod.metadata.created_at or "", pod.key))
        return due + terminated[: max(0, len(terminated) - MAX_TERMINATED)]

    def _is_out_of_service(self, node: NodeView) -> bool:
        """Return whether an administrator has declared that the node is shut down."""
        taints = [taint.get("key") for taint in node.spec.taints or ()]
        return node.condition("Ready") != "True" and self._out_of_service in taints

    async def _delete(self, pod: PodView) -> None:
        """Delete *pod* without a grace period; one that has not terminated is reported as failed."""

        def edit(obj: Object) -> None:
            status = obj.setdefault("status", {})
            if status.get("phase") not in FINISHED:
                status["phase"] = "Failed"

        await self._writer.change(self._pods, seen(pod), edit)
        await self._writer.delete(self._pods, seen(pod)["metadata"], grace_seconds=0)


def _is_evicted(pod: PodView) -> bool:
    return pod.status.reason == "Evicted"

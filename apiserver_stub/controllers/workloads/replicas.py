"""ReplicaSet and ReplicationController controllers: maintain the number of pods of a template."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, ClassVar

from apiserver_stub.apimachinery import objects
from apiserver_stub.apimachinery.objects import Object, parse_time
from apiserver_stub.apimachinery.status import ApiError
from apiserver_stub.controllers.plugin import ControllerContext
from apiserver_stub.controllers.views import OwnerView, PodView, View
from apiserver_stub.controllers.workloads import conditions
from apiserver_stub.controllers.workloads.owner_controller import OwnerController
from apiserver_stub.controllers.workloads.owners import Claims
from apiserver_stub.controllers.workloads.pod_writer import MAX_PODS, PodWriter, is_terminating, pod_of
from nodeagent.base.selectors import LabelSelector, Requirement

PODS = "core/pods"
_PHASES = {"Pending": 0, "": 0, "Unknown": 1, "Running": 2}
_LONG_AGO = datetime.min.replace(tzinfo=UTC)


class ReplicaController(OwnerController):
    """Controller of the pods of one kind of replicated pods."""

    dependents = (PODS,)

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self._pods = PodWriter(self.writer, self.events)
        self._claims = Claims(context.index, self.writer, self._pods.resource)
        self._deletion_cost = context.identity.label("pod-deletion-cost", "controller")

    async def sync(self, owner: Object) -> None:
        spec = owner["spec"]
        selector = self.selector_of(spec)
        if selector is None:
            return
        pods: list[PodView] = await self._claims.claim(owner, selector, lambda pod: pod.active)
        failure: ApiError | None = None
        if "deletionTimestamp" not in owner["metadata"]:
            try:
                await self._adjust(owner, pods)
            except ApiError as error:
                failure = None if is_terminating(error) else error
        now = self.context.clock.wall()
        status = replica_status(owner, pods, failure, now)
        await self._write_status(owner, status)
        if failure is not None:
            raise failure
        if status.get("readyReplicas") != status.get("availableReplicas"):
            key = self.owner.key(owner["metadata"]["namespace"], owner["metadata"]["name"])
            self.queue.add_after(key, spec.get("minReadySeconds", 0))

    async def _adjust(self, owner: Object, pods: Sequence[PodView]) -> None:
        """Create missing pods, or delete surplus ones.

        :raises ApiError: a pod cannot be created or deleted.
        """
        missing = (owner["spec"].get("replicas") or 0) - len(pods)
        if missing > 0:
            template = owner["spec"].get("template") or {}
            await self._pods.create_each(owner, [pod_of(owner, template) for _ in range(min(missing, MAX_PODS))])
        elif missing < 0:
            for pod in surplus_pods(pods, self._related(owner, pods), -missing, self._deletion_cost)[:MAX_PODS]:
                await self._pods.delete(owner, pod)

    def _related(self, owner: Object, pods: Sequence[PodView]) -> list[PodView]:
        """Return the pods whose number per node determines which ones are deleted first."""
        return list(pods)

    async def _write_status(self, owner: Object, status: Object) -> None:
        if generation := owner["metadata"].get("generation"):
            status["observedGeneration"] = generation
        if status == owner.get("status"):
            return

        def edit(obj: Object) -> None:
            obj["status"] = status

        await self.writer.change(self.owner, owner, edit)


class ReplicaSets(ReplicaController):
    """ReplicaSets."""

    name, alias, kind = "replicaset-controller", "replicaset", "ReplicaSet"
    owners = ("apps", "v1", "replicasets")
    resources = ("replicasets.apps",)
    views: ClassVar[Mapping[str, type[View]]] = {"apps/replicasets": OwnerView, PODS: PodView}

    def _related(self, owner: Object, pods: Sequence[PodView]) -> list[PodView]:
        """Return the pods of all ReplicaSets of the same Deployment."""
        index, found = self.context.index, list(pods)
        metadata = owner["metadata"]
        above = next((item for item in metadata.get("ownerReferences") or () if item.get("controller")), None)
        for other in index.owned(self.owner.storage, above["uid"]) if above is not None else ():
            if other.metadata.uid != metadata["uid"]:
                found += [pod for pod in index.owned(PODS, other.metadata.uid) if pod.active]
        return found


class ReplicationControllers(ReplicaController):
    """ReplicationControllers."""

    name, alias, kind = "replicationcontroller-controller", "replicationcontroller", "ReplicationController"
    owners = ("", "v1", "replicationcontrollers")
    resources = ("replicationcontrollers",)
    views: ClassVar[Mapping[str, type[View]]] = {"core/replicationcontrollers": OwnerView, PODS: PodView}

    def selector_of(self, spec: Mapping[str, Any]) -> LabelSelector | None:
        labels = spec.get("selector") or {}
        if not labels:
            return None
        return LabelSelector(tuple(Requirement(key, "in", frozenset([value])) for key, value in labels.items()))


def surplus_pods(pods: Sequence[PodView], related: Sequence[PodView], count: int, deletion_cost: str) -> list[PodView]:
    """Return the *count* pods to delete, the least useful first.

    Pods without a node come first, then by phase and readiness, by the annotation *deletion_cost*, by the number of
    *related* pods on their node, by the time since they are ready, by restarts and by age.
    """
    on_node = Counter(pod.spec.node_name for pod in related)

    def rank(pod: PodView) -> tuple[Any, ...]:
        since = pod.ready_since or _LONG_AGO
        created = parse_time(pod.metadata.created_at) or _LONG_AGO
        return (
            bool(pod.spec.node_name),
            _PHASES.get(pod.status.phase, 2),
            pod.ready,
            _cost(pod, deletion_cost),
            -on_node[pod.spec.node_name],
            -since.timestamp() if since > _LONG_AGO else 0.0,
            -pod.restarts,
            -created.timestamp() if created > _LONG_AGO else 0.0,
        )

    return sorted(pods, key=rank)[:count]


def _cost(pod: PodView, annotation: str) -> int:
    try:
        return int((pod.metadata.annotations or {}).get(annotation) or 0)
    except ValueError:
        return 0


def replica_status(owner: Object, pods: Sequence[PodView], failure: ApiError | None, now: datetime) -> Object:
    """Return the status of *owner* with the active *pods*; *failure* is the error of creating or deleting pods."""
    spec, before = owner["spec"], owner.get("status") or {}
    labels = (((spec.get("template") or {}).get("metadata") or {}).get("labels") or {}).items()
    counts = {
        "replicas": len(pods),
        "fullyLabeledReplicas": sum(labels <= (pod.metadata.labels or {}).items() for pod in pods),
        "readyReplicas": sum(pod.ready for pod in pods),
        "availableReplicas": sum(pod.available(spec.get("minReadySeconds") or 0, now) for pod in pods),
    }
    status: Object = {name: count for name, count in counts.items() if count or name == "replicas"}
    known = before.get("conditions")
    if failure is None:
        kept = conditions.without(known, "ReplicaFailure")
    else:
        reason = "FailedCreate" if len(pods) < (spec.get("replicas") or 0) else "FailedDelete"
        new = {
            "type": "ReplicaFailure",
            "status": "True",
            "lastTransitionTime": objects.format_time(now),
            "reason": reason,
            "message": failure.message,
        }
        kept = list(known or ()) if conditions.find(known, "ReplicaFailure") else conditions.with_condition(known, new)
    if kept:
        status["conditions"] = kept
    if observed := before.get("observedGeneration"):
        status["observedGeneration"] = observed
    return status

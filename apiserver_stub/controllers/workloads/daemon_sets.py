"""DaemonSet controller: one pod per node that the template allows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import ClassVar

from msgspec import field

from apiserver_stub.apimachinery import objects
from apiserver_stub.apimachinery.objects import Object
from apiserver_stub.apimachinery.status import ApiError
from apiserver_stub.controllers.plugin import ControllerContext
from apiserver_stub.controllers.views import FINISHED, NodeView, OwnerView, PodView, View
from apiserver_stub.controllers.workloads.owner_controller import OwnerController
from apiserver_stub.controllers.workloads.owners import Claims
from apiserver_stub.controllers.workloads.pod_writer import MAX_PODS, PodWriter, is_terminating, pod_of
from apiserver_stub.controllers.workloads.revisions import HASH_LABEL, REVISIONS, History, hash_of
from apiserver_stub.controllers.workloads.semantic import scaled
from apiserver_stub.scheduling.model import tolerates
from nodeagent.base.aio import BackoffTable
from nodeagent.base.identity import Identity
from nodeagent.base.node_affinity import NAME_FIELD, node_matches
from nodeagent.base.structs import MutableStruct

_PODS, _NODES = "core/pods", "core/nodes"
_TEMPLATE_GENERATION = "deprecated.daemonset.template.generation"
_GENERATION_LABEL = "pod-template-generation"
_NO_SCHEDULE = ("memory-pressure", "disk-pressure", "pid-pressure", "unschedulable")
_NO_EXECUTE = ("not-ready", "unreachable")
_FIRST_PAUSE_SECONDS, _MAX_PAUSE_SECONDS = 1.0, 15 * 60.0


class _Plan(MutableStruct):
    """Pods to delete and nodes that need one."""

    delete: list[PodView] = field(default_factory=list)
    create: list[str] = field(default_factory=list)


class DaemonSets(OwnerController):
    """DaemonSets."""

    name, alias, kind = "daemonset-controller", "daemonset", "DaemonSet"
    owners = ("apps", "v1", "daemonsets")
    dependents = (_PODS,)
    resources = ("daemonsets.apps", "controllerrevisions.apps")
    views: ClassVar[Mapping[str, type[View]]] = {
        "apps/daemonsets": OwnerView,
        _PODS: PodView,
        _NODES: NodeView,
        REVISIONS: View,
    }

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self._pods = PodWriter(self.writer, self.events)
        self._pod_claims = Claims(context.index, self.writer, self._pods.resource)
        self._history = History(context.verbs.store, context.index, self.writer, HASH_LABEL)
        self._failed = BackoffTable(context.clock, _FIRST_PAUSE_SECONDS, _MAX_PAUSE_SECONDS)
        context.index.listen(_NODES, self._node_changed)

    def _node_changed(self, before: View | None, after: View | None) -> None:
        if isinstance(before, NodeView) and isinstance(after, NodeView):
            same_labels = before.metadata.labels == after.metadata.labels
            if same_labels and before.spec == after.spec:
                return
        for owner in self.context.index.all(self.owner.storage):
            self.queue.add(owner.key)

    async def sync(self, owner: Object) -> None:
        selector = self.selector_of(owner["spec"])
        if not selector:
            text = "This daemon set is selecting all pods. A non-empty selector is required."
            self.events.record(owner, "Warning", "SelectingAll", "", text)
            return
        pods: list[PodView] = await self._pod_claims.claim(owner, selector)
        if "deletionTimestamp" in owner["metadata"]:
            return
        revisions = await self._history.read(owner, selector)
        current = await self._history.current(owner, revisions)
        digest = hash_of(current, HASH_LABEL)
        nodes = {node.metadata.name: node for node in self.context.index.all(_NODES)}
        by_node = _by_node(pods)
        now = self.context.clock.wall()
        plan = self._missing_and_surplus(owner, nodes, by_node, digest)
        failure = None
        try:
            await self._apply(owner, plan, digest)
            if not plan.create and not plan.delete:
                updates = rolling_changes(owner, nodes, by_node, digest, now, self.context.identity)
                await self._apply(owner, updates, digest)
        except ApiError as error:
            failure = None if is_terminating(error) else error
        await self._write_status(owner, nodes, digest)
        limit = owner["spec"].get("revisionHistoryLimit")
        live = {(pod.metadata.labels or {}).get(HASH_LABEL) for pod in pods} | {digest}
        names = [item["metadata"]["name"] for item in revisions if hash_of(item, HASH_LABEL) in live]
        await self._history.delete_old(revisions, names, 10 if limit is None else limit)
        if failure is not None:
            raise failure

    def _missing_and_surplus(
        self, owner: Object, nodes: Mapping[str, NodeView], by_node: Mapping[str, list[PodView]], digest: str
    ) -> _Plan:
        """Return the nodes without a pod, and the pods that terminated, are duplicates or do not belong there."""
        plan, identity = _Plan(), self.context.identity
        surges = max_surge(owner, len(nodes)) > 0
        for name, node in nodes.items():
            pods = by_node.get(name, [])
            runs, stays = should_run(owner, node, identity)
            if not runs:
                plan.delete += [pod for pod in pods if not stays and not pod.deleting]
                if not stays:
                    continue
            kept: list[PodView] = []
            for pod in pods:
                if pod.deleting:
                    continue
                if pod.status.phase == "Failed":
                    self._replace_failed(owner, pod, plan)
                elif pod.status.phase in FINISHED:
                    plan.delete.append(pod)
                else:
                    kept.append(pod)
            if runs and not pods:
                plan.create.append(name)
            plan.delete += _duplicates(kept, digest, surges=surges)
        for name, pods in by_node.items():
            if name and name not in nodes:
                plan.delete += [pod for pod in pods if not pod.deleting]
        return plan

    def _replace_failed(self, owner: Object, pod: PodView, plan: _Plan) -> None:
        """Delete a failed pod, after a growing pause for each failure on the node."""
        key = f"{owner['metadata']['uid']}/{pod.spec.node_name}"
        left = self._failed.remaining(key)
        if left > 0:
            metadata = owner["metadata"]
            self.queue.add_after(self.owner.key(metadata["namespace"], metadata["name"]), left)
            return
        self._failed.collect()
        self._failed.step(key)
        text = f"Found failed daemon pod {pod.metadata.namespace}/{pod.metadata.name} on node {pod.spec.node_name}"
        self.events.record(owner, "Warning", "FailedDaemonPod", "", f"{text}, will try to kill it")
        plan.delete.append(pod)

    async def _apply(self, owner: Object, plan: _Plan, digest: str) -> None:
        """Create and delete pods.

        :raises ApiError: one of them is rejected.
        """
        for pod in plan.delete[:MAX_PODS]:
            await self._pods.delete(owner, pod)
        pods = [self._pod(owner, node, digest) for node in plan.create[:MAX_PODS]]
        if pods:
            await self._pods.create_each(owner, pods)

    def _pod(self, owner: Object, node: str, digest: str) -> Object:
        pod = pod_of(owner, owner["spec"].get("template") or {})
        spec, metadata = pod["spec"], pod["metadata"]
        spec["tolerations"] = daemon_tolerations(spec, self.context.identity)
        spec["affinity"] = with_node(spec.get("affinity") or {}, node)
        labels = {**(metadata.get("labels") or {}), HASH_LABEL: digest}
        generation = (owner["metadata"].get("annotations") or {}).get(_TEMPLATE_GENERATION)
        metadata["labels"] = {**labels, **({_GENERATION_LABEL: generation} if generation else {})}
        return pod

    async def _write_status(self, owner: Object, nodes: Mapping[str, NodeView], digest: str) -> None:
        index, identity = self.context.index, self.context.identity
        await index.catch_up()
        by_node = _by_node(index.owned(_PODS, owner["metadata"]["uid"]))
        status = daemon_status(owner, nodes, by_node, digest, self.context.clock.wall(), identity)
        if status != owner.get("status"):

            def edit(obj: Object) -> None:
                obj["status"] = status

            await self.writer.change(self.owner, owner, edit)
        if status["numberReady"] != status.get("numberAvailable", 0):
            metadata, seconds = owner["metadata"], owner["spec"].get("minReadySeconds", 0)
            self.queue.add_after(self.owner.key(metadata["namespace"], metadata["name"]), seconds)


def _by_node(pods: Sequence[PodView]) -> dict[str, list[PodView]]:
    """Return *pods* by their node, or by the node that their affinity names."""
    found: dict[str, list[PodView]] = {}
    for pod in pods:
        found.setdefault(pod.spec.node_name or pod.spec.affinity_node, []).append(pod)
    return found


def _duplicates(pods: Sequence[PodView], digest: str, *, surges: bool) -> list[PodView]:
    """Return the pods of a node beyond the first one; during a surge an old and a new pod may run."""
    ordered = _oldest_first(pods)
    if not surges:
        return ordered[1:]
    new = [pod for pod in ordered if is_current(pod, digest)]
    old = [pod for pod in ordered if not is_current(pod, digest)]
    return [*new[1:], *old[1:]]


def _oldest_first(pods: Iterable[PodView]) -> list[PodView]:
    """Return *pods* by their creation, those without a node last."""
    return sorted(pods, key=lambda pod: (not pod.spec.node_name, pod.metadata.created_at or "", pod.metadata.name))


def is_current(pod: PodView, digest: str) -> bool:
    """Return whether *pod* has the current template."""
    return (pod.metadata.labels or {}).get(HASH_LABEL) == digest


def rolling_changes(
    owner: Object,
    nodes: Mapping[str, NodeView],
    by_node: Mapping[str, list[PodView]],
    digest: str,
    now: datetime,
    identity: Identity,
) -> _Plan:
    """Return the changes that replace pods with an old template, within the limits of the strategy."""
    plan, spec = _Plan(), owner["spec"]
    strategy = spec.get("updateStrategy") or {}
    if strategy.get("type") != "RollingUpdate":
        return plan
    eligible = [name for name, node in nodes.items() if should_run(owner, node, identity)[0]]
    surge, seconds = max_surge(owner, len(eligible)), spec.get("minReadySeconds", 0)
    rolling = strategy.get("rollingUpdate") or {}
    unavailable = scaled(rolling.get("maxUnavailable"), len(eligible), up=True)
    counted, candidates = 0, []
    for name in eligible:
        pods = [pod for pod in by_node.get(name, ()) if not pod.deleting]
        new = next((pod for pod in pods if is_current(pod, digest)), None)
        old = next((pod for pod in pods if not is_current(pod, digest)), None)
        if surge:
            if old is None:
                continue
            if new is None:
                if not old.available(seconds, now):
                    plan.create.append(name)
                elif counted < surge:
                    counted += 1
                    plan.create.append(name)
            elif new.available(seconds, now):
                plan.delete.append(old)
            else:
                counted += 1
        elif old is None or new is not None:
            counted += new is None or not new.available(seconds, now)
        elif not old.available(seconds, now):
            counted += 1
            plan.delete.append(old)
        else:
            candidates.append(old)
    plan.delete += candidates[: max(0, unavailable - counted)]
    return plan


def max_surge(owner: Object, count: int) -> int:
    """Return the number of nodes of *count* that may run an old and a new pod."""
    strategy = owner["spec"].get("updateStrategy") or {}
    if strategy.get("type") != "RollingUpdate":
        return 0
    return scaled((strategy.get("rollingUpdate") or {}).get("maxSurge"), count, up=True)


def should_run(owner: Object, node: NodeView, identity: Identity) -> tuple[bool, bool]:
    """Return whether a pod is to be started on *node*, and whether a running one stays."""
    spec = (owner["spec"].get("template") or {}).get("spec") or {}
    name = node.metadata.name
    if spec.get("nodeName") not in (None, "", name):
        return False, False
    required = ((spec.get("affinity") or {}).get("nodeAffinity") or {}).get(_REQUIRED)
    terms = None if required is None else required.get("nodeSelectorTerms") or ()
    if not node_matches(spec.get("nodeSelector") or {}, terms, node.metadata.labels or {}, name):
        return False, False
    tolerations = daemon_tolerations(spec, identity)
    effects = {
        taint.get("effect")
        for taint in node.spec.taints or ()
        if not any(tolerates(toleration, taint) for toleration in tolerations)
    }
    if effects & {"NoSchedule", "NoExecute"}:
        return False, "NoExecute" not in effects
    return True, True


_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def daemon_tolerations(spec: Object, identity: Identity) -> list[Object]:
    """Return the tolerations of a pod spec with those that pods of DaemonSets have."""
    names = [(name, "NoExecute") for name in _NO_EXECUTE] + [(name, "NoSchedule") for name in _NO_SCHEDULE]
    if spec.get("hostNetwork"):
        names.append(("network-unavailable", "NoSchedule"))
    added = [{"key": identity.label(name, "node"), "operator": "Exists", "effect": effect} for name, effect in names]
    return [*(spec.get("tolerations") or ()), *(item for item in added if item not in (spec.get("tolerations") or ()))]


def with_node(affinity: Object, node: str) -> Object:
    """Return *affinity* restricted to *node*, so that the scheduler binds the pod to it."""
    result: Object = objects.clone(affinity)
    requirement = {"key": NAME_FIELD, "operator": "In", "values": [node]}
    of_node = result.setdefault("nodeAffinity", {})
    of_node[_REQUIRED] = {"nodeSelectorTerms": [{"matchFields": [requirement]}]}
    return result


def daemon_status(
    owner: Object,
    nodes: Mapping[str, NodeView],
    by_node: Mapping[str, list[PodView]],
    digest: str,
    now: datetime,
    identity: Identity,
) -> Object:
    """Return the status of *owner*; the oldest pod of each node counts.

    Thus a surge of pods that are not ready yet does not appear as a completed update.
    """
    before, seconds = owner.get("status") or {}, owner["spec"].get("minReadySeconds") or 0
    names = (
        "currentNumberScheduled",
        "numberMisscheduled",
        "desiredNumberScheduled",
        "numberReady",
        "updatedNumberScheduled",
        "numberAvailable",
    )
    counts = dict.fromkeys(names, 0)
    for name, node in nodes.items():
        pods = [pod for pod in by_node.get(name, ()) if not (pod.deleting and pod.status.phase in FINISHED)]
        if not should_run(owner, node, identity)[0]:
            counts["numberMisscheduled"] += bool(pods)
            continue
        counts["desiredNumberScheduled"] += 1
        if not pods:
            continue
        oldest = _oldest_first(pods)[0]
        counts["currentNumberScheduled"] += 1
        counts["numberReady"] += oldest.ready
        counts["numberAvailable"] += oldest.available(seconds, now)
        counts["updatedNumberScheduled"] += is_current(oldest, digest)
    unavailable = counts["desiredNumberScheduled"] - counts["numberAvailable"]
    status: Object = {name: count for name, count in counts.items() if count or name in names[:4]}
    if unavailable:
        status["numberUnavailable"] = unavailable
    if generation := owner["metadata"].get("generation"):
        status["observedGeneration"] = generation
    return status | {name: before[name] for name in ("collisionCount", "conditions") if name in before}

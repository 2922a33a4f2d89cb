"""Decision for one pod: the nodes that it fits on, or the reasons why there is none. No I/O."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence

from apiserver_stub.scheduling.dynamic_resources import PodDevices
from apiserver_stub.scheduling.model import NodeInfo, PodInfo
from apiserver_stub.scheduling.node_affinity import named_nodes
from apiserver_stub.scheduling.node_filters import (
    Rejection,
    node_affinity,
    node_declared_features,
    node_name,
    node_ports,
    node_resources_fit,
    node_unschedulable,
    taint_toleration,
)
from apiserver_stub.scheduling.pod_affinity import inter_pod_affinity
from apiserver_stub.scheduling.state import ClusterState
from apiserver_stub.scheduling.topology_spread import pod_topology_spread
from apiserver_stub.scheduling.volume_binding import PodVolumes
from nodeagent.base.structs import Struct

NO_NODES = "no nodes available to schedule pods"
_NODE_FILTERS = (node_unschedulable, node_name, taint_toleration, node_affinity, node_ports, node_resources_fit)
_NO_VICTIMS = "No preemption victims found for incoming pod"
_NOT_HELPFUL = "Preemption is not helpful for scheduling"
_NEVER = "not eligible due to preemptionPolicy=Never."
_CONFLICT = "pod affinity terms conflict"


class Decision(Struct, frozen=True):
    """Result for a pod."""

    feasible: tuple[str, ...] = ()
    """Names of the nodes that it fits on, in order of name."""
    message: str = ""
    """Reason why it fits on none."""
    filters: frozenset[str] = frozenset()
    """Names of the filters that rejected it."""


class PodResources(Struct, frozen=True):
    """Volumes and devices of a pod, ``None`` without any."""

    volumes: PodVolumes | None = None
    devices: PodDevices | None = None

    @property
    def conflict(self) -> Rejection | None:
        """The reason why the pod fits on no node, ``None`` if its claims allow some."""
        conflicts = (item.conflict for item in (self.volumes, self.devices) if item is not None)
        return next((item for item in conflicts if item is not None), None)


_NO_RESOURCES = PodResources()


def decide(state: ClusterState, pod: PodInfo, resources: PodResources = _NO_RESOURCES) -> Decision:
    """Return where *pod* fits; *resources* are its claims.

    Pods of lower priority are never preempted: where that would help, the message does not mention preemption.
    """
    nodes = [state.nodes[name] for name in sorted(state.nodes)]
    if not nodes:
        return Decision(message=NO_NODES)
    names = named_nodes(pod)
    conflict = Rejection("NodeAffinity", (_CONFLICT,)) if names is not None and not names else None
    if conflict is None:
        conflict = resources.conflict
    if conflict is not None:
        rejections = dict.fromkeys((node.name for node in nodes), conflict)
        text = f"{_availability(len(nodes))} {conflict.reasons[0]}."
        return Decision((), text + _preemption(state, nodes, pod, rejections, resources), frozenset([conflict.filter]))
    run = _filters(state, nodes, pod, resources)
    feasible, rejections = [], {}
    for node in nodes:
        if names is not None and node.name not in names:
            continue
        rejection = run(node)
        if rejection is None:
            feasible.append(node.name)
        else:
            rejections[node.name] = rejection
    if feasible:
        return Decision(tuple(feasible))
    text = _summary(len(nodes), [reason for item in rejections.values() for reason in item.reasons])
    filters = frozenset(item.filter for item in rejections.values()) or frozenset(["NodeAffinity"])
    return Decision((), text + _preemption(state, nodes, pod, rejections, resources), filters)


def _filters(
    state: ClusterState, nodes: Sequence[NodeInfo], pod: PodInfo, resources: PodResources
) -> Callable[[NodeInfo], Rejection | None]:
    """Return a function that returns the first rejection of a node."""
    across = [
        check for check in (pod_topology_spread(nodes, pod), inter_pod_affinity(state, nodes, pod)) if check is not None
    ]

    def run(node: NodeInfo) -> Rejection | None:
        own = pod if resources.devices is None else resources.devices.without_backed(pod, node)
        for one in _NODE_FILTERS:
            if (rejection := one(own, node)) is not None:
                return rejection
        if resources.volumes is not None and (rejection := resources.volumes.check(pod, node)) is not None:
            return rejection
        if (found := next((found for check in across if (found := check(node)) is not None), None)) is not None:
            return found
        if resources.devices is not None and (rejection := resources.devices.check(node)) is not None:
            return rejection
        return node_declared_features(pod, node)

    return run


def _preemption(
    state: ClusterState,
    nodes: Sequence[NodeInfo],
    pod: PodInfo,
    rejections: Mapping[str, Rejection],
    resources: PodResources,
) -> str:
    """Return the end of the message: why the deletion of other pods would not help."""
    if not pod.may_preempt:
        return f" preemption: {_NEVER}"
    reasons: list[str] = []
    for node in nodes:
        rejection = rejections.get(node.name)
        if rejection is None or not rejection.resolvable:
            reasons.append(_NOT_HELPFUL)
            continue
        victims = [key for key, other in node.pods.items() if other.priority < pod.priority]
        if not victims:
            reasons.append(_NO_VICTIMS)
            continue
        emptied = node.without(victims)
        still = _filters(state, [emptied if item is node else item for item in nodes], pod, resources)(emptied)
        if still is None:
            return ""
        reasons.extend(still.reasons)
    return f" preemption: {_summary(len(nodes), reasons)}"


def _summary(count: int, reasons: Sequence[str]) -> str:
    """Return how many nodes were rejected for each reason."""
    numbers = sorted(f"{number} {reason}" for reason, number in Counter(reasons).items())
    return f"{_availability(count)} {', '.join(numbers)}." if numbers else _availability(count)


def _availability(count: int) -> str:
    return f"0/{count} nodes are available:"

"""Filters by the properties and the free resources of one node. No I/O."""

from __future__ import annotations

from apiserver_stub.scheduling.model import ANY_ADDRESS, NodeInfo, PodInfo
from apiserver_stub.scheduling.node_affinity import selects
from nodeagent.base.structs import Struct

_FIXED_RESOURCES = ("cpu", "memory", "ephemeral-storage")


class Rejection(Struct, frozen=True):
    """Rejection of a node by a filter."""

    filter: str
    reasons: tuple[str, ...]
    resolvable: bool = False
    """``True`` if the deletion of other pods could change the result."""


def node_unschedulable(pod: PodInfo, node: NodeInfo) -> Rejection | None:
    if not node.unschedulable or pod.tolerates(node.unschedulable_taint):
        return None
    return Rejection("NodeUnschedulable", ("node(s) were unschedulable",))


def node_name(pod: PodInfo, node: NodeInfo) -> Rejection | None:
    if pod.node in ("", node.name):
        return None
    return Rejection("NodeName", ("node(s) didn't match the requested node name",))


def taint_toleration(pod: PodInfo, node: NodeInfo) -> Rejection | None:
    taint = pod.untolerated(node.taints)
    if taint is None:
        return None
    shown = f"{{{taint.get('key') or ''}: {taint.get('value') or ''}}}"
    return Rejection("TaintToleration", (f"node(s) had untolerated taint {shown}",))


def node_affinity(pod: PodInfo, node: NodeInfo) -> Rejection | None:
    if selects(pod, node):
        return None
    return Rejection("NodeAffinity", ("node(s) didn't match Pod's node affinity/selector",))


def node_ports(pod: PodInfo, node: NodeInfo) -> Rejection | None:
    if not pod.ports:
        return None
    used = {port for other in node.pods.values() for port in other.ports}
    for address, protocol, port in pod.ports:
        for other_address, other_protocol, other_port in used:
            same = (other_protocol, other_port) == (protocol, port)
            if same and (address == other_address or ANY_ADDRESS in (address, other_address)):
                reason = "node(s) didn't have free ports for the requested pod ports"
                return Rejection("NodePorts", (reason,), resolvable=True)
    return None


def node_resources_fit(pod: PodInfo, node: NodeInfo) -> Rejection | None:
    reasons = []
    if len(node.pods) + 1 > node.allocatable.get("pods", 0):
        reasons.append("Too many pods")
    others = [name for name in pod.requests if name not in _FIXED_RESOURCES and name != "pods"]
    for name in (*_FIXED_RESOURCES, *others):
        requested = pod.requests.get(name, 0)
        if requested > 0 and requested > node.allocatable.get(name, 0) - node.requested.get(name, 0):
            reasons.append(f"Insufficient {name}")
    return Rejection("NodeResourcesFit", tuple(reasons), resolvable=True) if reasons else None


def node_declared_features(pod: PodInfo, node: NodeInfo) -> Rejection | None:
    if pod.features <= node.declared_features:
        return None
    return Rejection("NodeDeclaredFeatures", ("node(s) didn't match Pod's required features",))

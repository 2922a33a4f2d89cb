"""Builders of small clusters for tests of the filters."""

from __future__ import annotations

from typing import Any

from apiserver_stub.scheduling.decision import Decision, decide
from apiserver_stub.scheduling.model import NodeInfo, NodeTaintKeys, read_pod
from apiserver_stub.scheduling.state import ClusterState
from nodeagent.base.identity import Identity

ALLOCATABLE = {"cpu": "2", "memory": "4Gi", "ephemeral-storage": "10Gi", "pods": "10"}
NO_VICTIMS = "preemption: 0/1 nodes are available: 1 No preemption victims found for incoming pod."
NOT_HELPFUL = "preemption: 0/1 nodes are available: 1 Preemption is not helpful for scheduling."


def make_node(name: str = "n1", *, labels: dict[str, str] | None = None, ready: bool = True, **spec: Any) -> NodeInfo:
    """Return a node; ``allocatable`` in *spec* changes its resources, ``declared`` its declared features."""
    allocatable = ALLOCATABLE | spec.pop("allocatable", {})
    status = {"allocatable": allocatable, "declaredFeatures": spec.pop("declared", [])}
    all_labels = {"kubernetes.io/hostname": name, **(labels or {})}
    node = {"metadata": {"name": name, "labels": all_labels}, "spec": spec, "status": status}
    return NodeInfo(node, NodeTaintKeys.of(Identity()), ready=ready)


def make_pod(
    name: str = "p",
    *,
    namespace: str = "default",
    labels: dict[str, str] | None = None,
    requests: dict[str, str] | None = None,
    **spec: Any,
) -> dict[str, Any]:
    container: dict[str, Any] = {"name": "c", "resources": {"requests": requests or {}}}
    if "ports" in spec:
        container["ports"] = spec.pop("ports")
    metadata = {"name": name, "namespace": namespace, "labels": labels or {}}
    return {"metadata": metadata, "spec": {"containers": [container], **spec}}


def make_state(*nodes: NodeInfo, pods: tuple[dict[str, Any], ...] = ()) -> ClusterState:
    """Return a cluster; pods run on the first node unless they name another."""
    state = ClusterState()
    for node in nodes:
        state.set_node(node)
    for pod in pods:
        pod["spec"].setdefault("nodeName", nodes[0].name)
        state.assign(f"{pod['metadata']['namespace']}/{pod['metadata']['name']}", read_pod(pod))
    return state


def decided(state: ClusterState, pod: dict[str, Any]) -> Decision:
    return decide(state, read_pod(pod))


def fits(node: NodeInfo, pod: dict[str, Any], *others: dict[str, Any]) -> bool:
    return bool(decided(make_state(node, pods=others), pod).feasible)

"""Filter by required inter-pod affinity and anti-affinity, of the pod and of existing pods. No I/O."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable

from apiserver_stub.scheduling.model import AffinityTerm, NodeInfo, PodInfo
from apiserver_stub.scheduling.node_filters import Rejection
from apiserver_stub.scheduling.state import ClusterState

_NAME = "InterPodAffinity"
Topology = tuple[str, str]
"""Key and value of a node label."""


def inter_pod_affinity(
    state: ClusterState, nodes: Iterable[NodeInfo], pod: PodInfo
) -> Callable[[NodeInfo], Rejection | None] | None:
    """Return the filter for *pod* with the pods of *nodes*, ``None`` if no affinity concerns it."""
    labels = state.labels_of(pod.namespace)
    affine: Counter[Topology] = Counter()
    anti_affine: Counter[Topology] = Counter()
    rejecting: Counter[Topology] = Counter()
    for node in nodes:
        for other in node.pods.values():
            for term in other.anti_affinity:
                if term.matches(pod, labels):
                    _count(rejecting, node, term)
            if not pod.affinity and not pod.anti_affinity:
                continue
            other_labels = state.labels_of(other.namespace)
            if pod.affinity and all(term.matches(other, other_labels) for term in pod.affinity):
                for term in pod.affinity:
                    _count(affine, node, term)
            for term in pod.anti_affinity:
                if term.matches(other, other_labels):
                    _count(anti_affine, node, term)
    if not rejecting and not pod.affinity and not pod.anti_affinity:
        return None
    is_first = not affine and all(term.matches(pod, labels) for term in pod.affinity)

    def check(node: NodeInfo) -> Rejection | None:
        if not _meets_affinity(node, pod, affine, is_first=is_first):
            return Rejection(_NAME, ("node(s) didn't match pod affinity rules",))
        if any(anti_affine[_topology(node, term)] for term in pod.anti_affinity if term.topology_key in node.labels):
            return Rejection(_NAME, ("node(s) didn't match pod anti-affinity rules",), resolvable=True)
        if any(rejecting[pair] for pair in node.labels.items()):
            return Rejection(_NAME, ("node(s) didn't satisfy existing pods anti-affinity rules",), resolvable=True)
        return None

    return check


def _meets_affinity(node: NodeInfo, pod: PodInfo, affine: Counter[Topology], *, is_first: bool) -> bool:
    """Return whether *node* meets the affinity of *pod*; the first of a group of pods requires only the topology."""
    if any(term.topology_key not in node.labels for term in pod.affinity):
        return False
    return is_first or all(affine[_topology(node, term)] for term in pod.affinity)


def _count(counts: Counter[Topology], node: NodeInfo, term: AffinityTerm) -> None:
    if term.topology_key in node.labels:
        counts[_topology(node, term)] += 1


def _topology(node: NodeInfo, term: AffinityTerm) -> Topology:
    return term.topology_key, node.labels[term.topology_key]

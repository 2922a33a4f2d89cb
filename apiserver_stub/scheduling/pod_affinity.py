"""Filter by required inter-pod affinity and anti-affinity, of the pod and of those that run. No I/O."""

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
    wanted: Counter[Topology] = Counter()
    unwanted: Counter[Topology] = Counter()
    refused: Counter[Topology] = Counter()
    for node in nodes:
        for other in node.pods.values():
            for term in other.anti_affinity:
                if term.matches(pod, labels):
                    _count(refused, node, term)
            if not pod.affinity and not pod.anti_affinity:
                continue
            other_labels = state.labels_of(other.namespace)
            if pod.affinity and all(term.matches(other, other_labels) for term in pod.affinity):
                for term in pod.affinity:
                    _count(wanted, node, term)
            for term in pod.anti_affinity:
                if term.matches(other, other_labels):
                    _count(unwanted, node, term)
    if not refused and not pod.affinity and not pod.anti_affinity:
        return None
    is_first = not wanted and all(term.matches(pod, labels) for term in pod.affinity)

    def check(node: NodeInfo) -> Rejection | None:
        if not _has_wanted(node, pod, wanted, is_first=is_first):
            return Rejection(_NAME, ("node(s) didn't match pod affinity rules",))
        if any(unwanted[_topology(node, term)] for term in pod.anti_affinity if term.topology_key in node.labels):
            return Rejection(_NAME, ("node(s) didn't match pod anti-affinity rules",), resolvable=True)
        if any(refused[pair] for pair in node.labels.items()):
            return Rejection(_NAME, ("node(s) didn't satisfy existing pods anti-affinity rules",), resolvable=True)
        return None

    return check


def _has_wanted(node: NodeInfo, pod: PodInfo, wanted: Counter[Topology], *, is_first: bool) -> bool:
    """Return whether the pods that *pod* wants to be near are; the first of a series needs only the topology."""
    if any(term.topology_key not in node.labels for term in pod.affinity):
        return False
    return is_first or all(wanted[_topology(node, term)] for term in pod.affinity)


def _count(counts: Counter[Topology], node: NodeInfo, term: AffinityTerm) -> None:
    if term.topology_key in node.labels:
        counts[_topology(node, term)] += 1


def _topology(node: NodeInfo, term: AffinityTerm) -> Topology:
    return term.topology_key, node.labels[term.topology_key]

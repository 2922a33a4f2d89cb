"""Filter by topology spread constraints that must hold. No I/O."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from apiserver_stub.scheduling.model import NodeInfo, PodInfo, SpreadConstraint
from apiserver_stub.scheduling.node_affinity import selects
from apiserver_stub.scheduling.node_filters import Rejection

_NAME = "PodTopologySpread"
_MISMATCH = "node(s) didn't match pod topology spread constraints"


def pod_topology_spread(nodes: Iterable[NodeInfo], pod: PodInfo) -> Callable[[NodeInfo], Rejection | None] | None:
    """Return the filter for *pod* with the pods of *nodes*, ``None`` if it has no such constraint."""
    if not pod.spread:
        return None
    counts: dict[tuple[str, str], int] = {}
    for node in nodes:
        if any(constraint.topology_key not in node.labels for constraint in pod.spread):
            continue
        found = {
            (constraint.topology_key, node.labels[constraint.topology_key]): _count(node, pod, constraint)
            for constraint in pod.spread
            if _is_included(node, pod, constraint)
        }
        for pair, count in found.items():
            counts[pair] = counts.get(pair, 0) + count

    def check(node: NodeInfo) -> Rejection | None:
        for constraint in pod.spread:
            key = constraint.topology_key
            if key not in node.labels:
                return Rejection(_NAME, (f"{_MISMATCH} (missing required label)",))
            domains = [count for (name, _), count in counts.items() if name == key]
            least = min(domains) if len(domains) >= max(1, constraint.min_domains) else 0
            itself = constraint.selector is not None and constraint.selector.matches(pod.labels)
            if counts.get((key, node.labels[key]), 0) + itself - least > constraint.max_skew:
                return Rejection(_NAME, (_MISMATCH,), resolvable=True)
        return None

    return check


def _is_included(node: NodeInfo, pod: PodInfo, constraint: SpreadConstraint) -> bool:
    if constraint.honors_affinity and not selects(pod, node):
        return False
    return not constraint.honors_taints or pod.untolerated(node.taints) is None


def _count(node: NodeInfo, pod: PodInfo, constraint: SpreadConstraint) -> int:
    selector = constraint.selector
    if not selector:  # An empty selector counts nothing here, although it selects every pod.
        return 0
    return sum(
        not other.deleting and other.namespace == pod.namespace and selector.matches(other.labels)
        for other in node.pods.values()
    )

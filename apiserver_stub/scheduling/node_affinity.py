"""Node selectors and required node affinity. No I/O."""

from __future__ import annotations

from apiserver_stub.scheduling.model import NodeInfo, PodInfo
from nodeagent.base.node_affinity import NAME_FIELD, node_matches


def selects(pod: PodInfo, node: NodeInfo) -> bool:
    """Return whether the node selector and the required node affinity of *pod* allow *node*."""
    return node_matches(pod.node_selector, pod.node_terms, node.labels, node.name)


def named_nodes(pod: PodInfo) -> set[str] | None:
    """Return the names of the only nodes that the affinity allows, ``None`` if it does not name nodes."""
    names: set[str] = set()
    for term in pod.node_terms or ():
        found: set[str] | None = None
        for requirement in term.get("matchFields") or ():
            if requirement.get("key") == NAME_FIELD and requirement.get("operator") == "In":
                values = set(requirement.get("values") or ())
                found = values if found is None else found & values
        if found is None:
            return None
        names |= found
    return names if pod.node_terms else None

"""Node affinity of PersistentVolumes. No I/O."""

from __future__ import annotations

from collections.abc import Mapping

from nodeagent.base.node_affinity import node_matches
from nodeagent.model.persistent_volume import PersistentVolume


def volume_matches_node(pv: PersistentVolume, labels: Mapping[str, str], name: str) -> bool:
    """Return whether *pv* is accessible from a node; without node affinity it is from every node.

    :param labels: of the node called *name*.
    """
    affinity = pv.spec.node_affinity
    if affinity is None or affinity.required is None:
        return True
    return node_matches({}, affinity.required.get("nodeSelectorTerms") or (), labels, name)

"""Cluster state: the nodes, their pods, and the labels of namespaces, kept current change by change. No I/O."""

from __future__ import annotations

from collections.abc import Mapping

from apiserver_stub.scheduling.model import NodeInfo, PodInfo


class ClusterState:
    """The state of the cluster that filters depend on."""

    def __init__(self) -> None:
        self.nodes: dict[str, NodeInfo] = {}
        self.namespaces: dict[str, Mapping[str, str]] = {}
        """Labels of namespaces, by name."""
        self._assigned: dict[str, PodInfo] = {}

    def clear(self) -> None:
        self.nodes.clear()
        self.namespaces.clear()
        self._assigned.clear()

    @property
    def pods(self) -> Mapping[str, PodInfo]:
        """Pods that are assigned to a node, by key."""
        return self._assigned

    def labels_of(self, namespace: str) -> Mapping[str, str]:
        return self.namespaces.get(namespace, {})

    def assigned(self, key: str) -> PodInfo | None:
        """Return the pod *key* if it is assigned to a node."""
        return self._assigned.get(key)

    def set_node(self, node: NodeInfo) -> bool:
        """Record a node; return whether the change is relevant for any filter."""
        before = self.nodes.get(node.name)
        for key, pod in self._assigned.items() if before is None else before.pods.items():
            if pod.node == node.name:
                node.add(key, pod)
        self.nodes[node.name] = node
        return before is None or not before.is_like(node)

    def remove_node(self, name: str) -> None:
        """Drop a node; its pods remain assigned to it, as the node may be recreated."""
        self.nodes.pop(name, None)

    def assign(self, key: str, pod: PodInfo) -> None:
        """Record a pod that is assigned to a node."""
        self.release(key)
        self._assigned[key] = pod
        if (node := self.nodes.get(pod.node)) is not None:
            node.add(key, pod)

    def release(self, key: str) -> PodInfo | None:
        """Drop a pod and return it if it was assigned to a node."""
        pod = self._assigned.pop(key, None)
        if pod is not None and (node := self.nodes.get(pod.node)) is not None:
            node.remove(key)
        return pod

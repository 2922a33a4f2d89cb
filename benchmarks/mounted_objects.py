"""Fifty API pods that each mount a dedicated ConfigMap and Secret: start, and updates of all objects."""

from __future__ import annotations

import time
from typing import Any

from benchmarks.api import Client, PodWatch
from benchmarks.api_pods import start_pods
from benchmarks.figures import Figure
from benchmarks.node import LIMIT_SECONDS, PODS, SETTLE_SECONDS, Node, bench_pod, names, started_node
from tests.integration.programs import wait_until

_NAMESPACE = "/api/v1/namespaces/default"

FIGURES = (
    Figure("all_running", f"{PODS} API pods with dedicated objects: all Running", "s"),
    Figure("p50_running", "creation until Running, median", "s"),
    Figure("p99_running", "creation until Running, p99", "s"),
    Figure("start_cpu", "agent CPU until all are Running", "s"),
    Figure("server_cpu", "API server CPU until all are Running", "s"),
    Figure("updated", f"update of {2 * PODS} objects until the last volume has it", "s"),
)


def run() -> dict[str, float]:
    with started_node(with_api=True) as node, PodWatch(node.server) as watch, Client(node.server) as client:
        for name in names():
            for plural, content in _objects(name, "1"):
                client.request("POST", f"{_NAMESPACE}/{plural}", content)
        time.sleep(SETTLE_SECONDS)
        result = start_pods(node, watch, client, [_pod(name, node.agent.node) for name in names()])
        time.sleep(SETTLE_SECONDS)
        return result | {"updated": _update(node, client)}


def _objects(name: str, value: str) -> list[tuple[str, dict[str, Any]]]:
    """Return the ConfigMap and the Secret of a pod, each with its resource."""
    metadata, content = {"name": name}, {"value": value}
    return [
        ("configmaps", {"metadata": metadata, "data": content}),
        ("secrets", {"metadata": metadata, "stringData": content}),
    ]


def _pod(name: str, node_name: str) -> dict[str, Any]:
    pod = bench_pod(name, nodeName=node_name)
    pod["spec"]["volumes"] = [
        {"name": "configmap", "configMap": {"name": name}},
        {"name": "secret", "secret": {"secretName": name}},
    ]
    mounts = [{"name": volume["name"], "mountPath": f"/data/{volume['name']}"} for volume in pod["spec"]["volumes"]]
    pod["spec"]["containers"][0]["volumeMounts"] = mounts
    return pod


def _update(node: Node, client: Client) -> float:
    """Return the time from the first update of an object until all volumes have the new content."""
    started = time.monotonic()
    for name in names():
        for plural, content in _objects(name, "2"):
            client.request("PUT", f"{_NAMESPACE}/{plural}/{name}", content)
    volumes = [*node.agent.root.glob("pods/*/volumes/kubernetes.io~*/*/value")]
    if len(volumes) != 2 * PODS:
        raise RuntimeError(f"{len(volumes)} volumes instead of {2 * PODS}")
    wait_until(lambda: all(file.read_text() == "2" for file in volumes), "volumes are updated", LIMIT_SECONDS)
    return time.monotonic() - started

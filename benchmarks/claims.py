"""Pods with claims compared with emptyDir, and the idle agent with 250 mounted volumes."""

from __future__ import annotations

import contextlib
import statistics
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks.api import Client, PodWatch
from benchmarks.figures import Figure
from benchmarks.node import LIMIT_SECONDS, Node, bench_pod, idle_percent, started_node, stop
from nodeagent.base.mounts.table import read_mounts
from tests.integration.programs import Program, wait_until

PODS = 50
IDLE_PODS, VOLUMES_PER_POD = 25, 10
IDLE_VOLUMES = IDLE_PODS * VOLUMES_PER_POD
QUIET_SECONDS, PAUSE_SECONDS = 30.0, 0.1
DRIVER = "csi.bench"
EMPTY, LOCAL, CSI = "empty", "local", "csi"
KINDS = (EMPTY, LOCAL, CSI)
_NAMESPACE = "/api/v1/namespaces/default"

FIGURES = (
    Figure(EMPTY, f"{PODS} pods with an emptyDir, one after another: creation until Running, mean", "ms"),
    Figure(f"{EMPTY}_cpu", "agent CPU per pod", "ms"),
    *(
        figure
        for kind, title in ((LOCAL, "claim of a local volume"), (CSI, "claim of a CSI driver"))
        for figure in (
            Figure(kind, f"{title}: added time per pod, driver and API server included", "ms"),
            Figure(f"{kind}_cpu", f"{title}: added agent CPU per pod", "ms", at_most=20),
        )
    ),
    Figure(f"{LOCAL}_idle", f"idle agent with {IDLE_VOLUMES} mounted local volumes", "% of a core", at_most=1),
    Figure(f"{CSI}_idle", f"idle agent with {IDLE_VOLUMES} mounted CSI volumes", "% of a core", at_most=1),
)


def run() -> dict[str, float]:
    with _node() as node:
        return _started(node) | {f"{kind}_idle": _idle(node, kind) for kind in (LOCAL, CSI)}


@contextlib.contextmanager
def _node() -> Iterator[Node]:
    """Start a node with a CSI driver."""
    with started_node(with_api=True, maxPods=300) as node:
        registry = node.agent.root / "plugins_registry"
        driver = Program("csi", node.directory)
        state = node.directory / "csi"
        driver.launch("tests.csi_driver", "--name", DRIVER, "--directory", str(state), "--registry", str(registry))
        try:
            with Client(node.server) as client:
                spec = {"attachRequired": False, "fsGroupPolicy": "None"}
                path = "/apis/storage.k8s.io/v1/csi"
                client.request("POST", f"{path}drivers", {"metadata": {"name": DRIVER}, "spec": spec})
                node_path = f"{path}nodes/{node.agent.node}"
                wait_until(lambda: client.request("GET", node_path)["spec"].get("drivers"), "the driver is registered")
            yield node
        finally:
            with Client(node.server) as client, contextlib.suppress(RuntimeError):
                client.request("DELETE", f"{_NAMESPACE}/pods?gracePeriodSeconds=1")
                wait_until(lambda: not _mounted(node), "all volumes are unmounted", LIMIT_SECONDS)
            stop(driver)


def _started(node: Node) -> dict[str, float]:
    """Start pods of each kind in turn; return the times and the differences to emptyDir."""
    seconds: dict[str, list[float]] = {kind: [] for kind in KINDS}
    cpu = dict.fromkeys(KINDS, 0.0)
    with PodWatch(node.server) as watch, Client(node.server) as client:
        for number in range(PODS):
            for kind in KINDS:
                _create_claim(node, client, kind, f"one-{number}")
        wait_until(lambda: _all_bound(client), "the claims are bound", LIMIT_SECONDS)
        for number in range(PODS):
            for kind in KINDS:
                name, before = f"bench-{kind}-{number}", node.agent.cpu_seconds()
                started = time.monotonic()
                client.create_pod(_pod(node, name, kind, [f"one-{number}"]))
                watch.wait_running([name], LIMIT_SECONDS)
                seconds[kind].append(watch.running_at[name] - started)
                time.sleep(PAUSE_SECONDS)  # The status is sent afterwards.
                cpu[kind] += node.agent.cpu_seconds() - before
        names = [f"bench-{kind}-{number}" for kind in KINDS for number in range(PODS)]
        for name in names:
            client.delete_pod(name)
        watch.wait_deleted(names, LIMIT_SECONDS)
    means = {kind: 1000 * statistics.mean(seconds[kind]) for kind in KINDS}
    used = {kind: 1000 * cpu[kind] / PODS for kind in KINDS}
    result = {EMPTY: means[EMPTY], f"{EMPTY}_cpu": used[EMPTY]}
    for kind in (LOCAL, CSI):
        result |= {kind: means[kind] - means[EMPTY], f"{kind}_cpu": used[kind] - used[EMPTY]}
    return result


def _idle(node: Node, kind: str) -> float:
    """Return the CPU usage of the agent with mounted volumes, and remove them."""
    with PodWatch(node.server) as watch, Client(node.server) as client:
        claims = [[f"idle-{pod}-{number}" for number in range(VOLUMES_PER_POD)] for pod in range(IDLE_PODS)]
        for name in (name for names in claims for name in names):
            _create_claim(node, client, kind, name)
        wait_until(lambda: _all_bound(client), "the claims are bound", LIMIT_SECONDS)
        pods = [f"bench-{kind}-idle-{number}" for number in range(IDLE_PODS)]
        for pod, names in zip(pods, claims, strict=True):
            client.create_pod(_pod(node, pod, kind, names))
        watch.wait_running(pods, LIMIT_SECONDS)
        assert _mounted(node) >= IDLE_VOLUMES
        time.sleep(QUIET_SECONDS)
        percent = idle_percent(node.agent)
        with Client(node.server) as later:  # The server has closed the idle connection.
            for pod in pods:
                later.delete_pod(pod)
        watch.wait_deleted(pods, LIMIT_SECONDS)
    return percent


def _create_claim(node: Node, client: Client, kind: str, name: str) -> None:
    """Create a PersistentVolume and the claim that it is bound to; an emptyDir needs none."""
    if kind == EMPTY:
        return
    name = f"{kind}-{name}"
    common = {"accessModes": ["ReadWriteOnce"], "storageClassName": ""}
    source: dict[str, Any] = {"csi": {"driver": DRIVER, "volumeHandle": name}}
    if kind == LOCAL:
        path: Path = node.directory / "data" / name
        path.mkdir(parents=True)
        host = {"key": "kubernetes.io/hostname", "operator": "In", "values": [node.agent.node]}
        affinity = {"required": {"nodeSelectorTerms": [{"matchExpressions": [host]}]}}
        source = {"local": {"path": str(path)}, "nodeAffinity": affinity}
    spec = {**common, **source, "capacity": {"storage": "1Mi"}, "persistentVolumeReclaimPolicy": "Retain"}
    claim = {**common, "volumeName": name, "resources": {"requests": {"storage": "1Mi"}}}
    client.request("POST", "/api/v1/persistentvolumes", {"metadata": {"name": name}, "spec": spec})
    client.request("POST", f"{_NAMESPACE}/persistentvolumeclaims", {"metadata": {"name": name}, "spec": claim})


def _all_bound(client: Client) -> bool:
    items = client.request("GET", f"{_NAMESPACE}/persistentvolumeclaims")["items"]
    return all(item["status"].get("phase") == "Bound" for item in items)


def _pod(node: Node, name: str, kind: str, claims: list[str]) -> dict[str, Any]:
    pod = bench_pod(name, nodeName=node.agent.node)
    sources: list[dict[str, Any]] = [
        {"emptyDir": {}} if kind == EMPTY else {"persistentVolumeClaim": {"claimName": f"{kind}-{claim}"}}
        for claim in claims
    ]
    pod["spec"]["volumes"] = [{"name": f"v{number}", **source} for number, source in enumerate(sources)]
    mounts = [{"name": f"v{number}", "mountPath": f"/data/{number}"} for number in range(len(sources))]
    pod["spec"]["containers"][0]["volumeMounts"] = mounts
    return pod


def _mounted(node: Node) -> int:
    """Return the number of mounts of volumes for pods."""
    prefix = f"{node.agent.root}/pods/"
    return sum(entry.path.startswith(prefix) for entry in read_mounts())

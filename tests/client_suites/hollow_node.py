"""Node without containers: a thread that binds pods to a node and reports them as running.

Suites wait for pods to become ready, and expect that a cluster has pods. Both servers get the same node with a pod in
``kube-system``, so that these tests do not only time out.
"""

from __future__ import annotations

import contextlib
import itertools
import threading
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

from tests.integration.programs import NODE, ApiServer

_PAUSE_SECONDS, _HEARTBEAT_SECONDS, _STOP_SECONDS = 0.2, 8.0, 30.0
_CAPACITY = {"cpu": "8", "memory": "16Gi", "pods": "500"}
_NODE_CONDITIONS = {"Ready": "True", "MemoryPressure": "False", "DiskPressure": "False", "PIDPressure": "False"}
_POD_CONDITIONS = ("PodScheduled", "Initialized", "ContainersReady", "Ready")
_MERGE = "application/merge-patch+json"
_SYSTEM_POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "system", "labels": {"app": "system"}},
    "spec": {"containers": [{"name": "c", "image": "busybox"}], "automountServiceAccountToken": False},
}


@contextlib.contextmanager
def hollow_node(server: ApiServer) -> Iterator[None]:
    """Run the pods of *server* while the context is active."""
    stopping = threading.Event()
    thread = threading.Thread(target=_run, args=(server, stopping), name="hollow node")
    server.request("POST", "/api/v1/nodes", {"apiVersion": "v1", "kind": "Node", "metadata": {"name": NODE}})
    thread.start()
    try:
        yield
    finally:
        stopping.set()
        thread.join(_STOP_SECONDS)


def _run(server: ApiServer, stopping: threading.Event) -> None:
    steps = int(_HEARTBEAT_SECONDS / _PAUSE_SECONDS)
    for step in itertools.count():
        if stopping.wait(_PAUSE_SECONDS):
            return
        with contextlib.suppress(OSError, ValueError, KeyError):  # A suite may overload or break a server.
            if step % steps == 0:
                _report_node(server)
            for pod in server.get("/api/v1/pods")["items"]:
                _advance(server, pod)


def _report_node(server: ApiServer) -> None:
    now = _now()
    times = {"lastHeartbeatTime": now, "lastTransitionTime": now}
    conditions = [{"type": kind, "status": status, **times} for kind, status in _NODE_CONDITIONS.items()]
    status = {"capacity": _CAPACITY, "allocatable": _CAPACITY, "conditions": conditions}
    server.request("PATCH", f"/api/v1/nodes/{NODE}/status", {"status": status}, _MERGE)
    server.request("POST", "/api/v1/namespaces/kube-system/pods", _SYSTEM_POD)  # Until its service account exists.
    leases = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"
    spec = {"holderIdentity": NODE, "leaseDurationSeconds": 40, "renewTime": f"{now[:-1]}.000000Z"}
    lease = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": NODE}, "spec": spec}
    if server.request("PATCH", f"{leases}/{NODE}", {"spec": spec}, _MERGE).get("kind") != "Lease":
        server.request("POST", leases, lease)


def _advance(server: ApiServer, pod: dict[str, Any]) -> None:
    metadata, status = pod["metadata"], pod.get("status") or {}
    path = f"/api/v1/namespaces/{metadata['namespace']}/pods/{metadata['name']}"
    if "deletionTimestamp" in metadata:
        server.request("DELETE", path, {"gracePeriodSeconds": 0})
    elif not pod["spec"].get("nodeName"):
        if not pod["spec"].get("schedulingGates"):
            target = {"apiVersion": "v1", "kind": "Node", "name": NODE}
            server.request("POST", f"{path}/binding", {"metadata": {"name": metadata["name"]}, "target": target})
    elif pod["spec"]["nodeName"] == NODE and status.get("phase", "Pending") == "Pending":
        server.request("PATCH", f"{path}/status", {"status": _running(pod)}, _MERGE)


def _running(pod: dict[str, Any]) -> dict[str, Any]:
    """Return the status of *pod* with running containers; those of Jobs have succeeded."""
    now, succeeded = _now(), pod["spec"].get("restartPolicy") != "Always"
    state = (
        {"terminated": {"exitCode": 0, "reason": "Completed", "startedAt": now, "finishedAt": now}}
        if succeeded
        else {"running": {"startedAt": now}}
    )
    containers = [
        {
            "name": item["name"],
            "image": item["image"],
            "imageID": "",
            "restartCount": 0,
            "ready": not succeeded,
            "state": state,
        }
        for item in pod["spec"]["containers"]
    ]
    ready = "False" if succeeded else "True"
    conditions = [
        {"type": kind, "status": "True" if index < 2 else ready, "lastTransitionTime": now}
        for index, kind in enumerate(_POD_CONDITIONS)
    ]
    return {
        "phase": "Succeeded" if succeeded else "Running",
        "startTime": now,
        "podIP": "127.0.0.1",
        "conditions": conditions,
        "containerStatuses": containers,
    }


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")

"""Tests for the pod status in the API while the pod terminates, on a real runtime."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.integration.agent.conftest import Node
from tests.integration.programs import IMAGE, simple_pod

AFTER_TERM = "trap '{on_term} while [ ! -f /share/end-{name} ]; do sleep 0.1; done; exit {code}' TERM"
IDLE = "while true; do sleep 0.1; done"


def statuses(pod: Any) -> dict[str, Any]:
    return {status["name"]: status for status in pod["status"]["containerStatuses"]}


def ready(pod: Any) -> str:
    conditions = {condition["type"]: condition["status"] for condition in pod["status"]["conditions"]}
    return str(conditions["Ready"])


def test_status_of_terminating_pod_follows_probes_and_exits(node: Node) -> None:
    share = [{"name": "share", "mountPath": "/share"}]
    main = AFTER_TERM.format(on_term="rm /tmp/ready;", name="main", code=0)
    helper = AFTER_TERM.format(on_term="", name="helper", code=3)
    probe = {"exec": {"command": ["test", "-f", "/tmp/ready"]}, "periodSeconds": 1, "failureThreshold": 1}
    other = {"name": "helper", "image": IMAGE, "command": ["/bin/sh", "-c", f"{helper}; {IDLE}"], "volumeMounts": share}
    pod = simple_pod(
        "leaving",
        f"touch /tmp/ready; {main}; {IDLE}",
        nodeName="node-1",
        container={"readinessProbe": probe, "volumeMounts": share},
        more_containers=[other],
        volumes=[{"name": "share", "emptyDir": {}}],
        terminationGracePeriodSeconds=120,
    )
    created = node.api.create_pod(pod)
    node.until("leaving", lambda p: p["status"].get("conditions") and ready(p) == "True", "the pod is ready")
    volume = Path(node.agent.root) / "pods" / created["metadata"]["uid"] / "volumes/kubernetes.io~empty-dir/share"

    node.api.delete_pod("leaving")

    unready = node.until("leaving", lambda p: ready(p) == "False", "the failed probe is reported")
    assert {name: set(status["state"]) for name, status in statuses(unready).items()} == {
        "main": {"running"},
        "helper": {"running"},
    }
    assert unready["status"]["phase"] == "Running"
    (volume / "end-helper").touch()
    exited = node.until("leaving", lambda p: "terminated" in statuses(p)["helper"]["state"], "the exit is reported")
    assert statuses(exited)["helper"]["state"]["terminated"]["exitCode"] == 3
    assert set(statuses(exited)["main"]["state"]) == {"running"}
    (volume / "end-main").touch()
    node.gone("leaving")

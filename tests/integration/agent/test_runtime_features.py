"""Tests for pods that rely on features which containerd of Debian 12 does not have."""

from __future__ import annotations

from typing import Any

import pytest

from tests.integration.agent.conftest import Node
from tests.integration.programs import IMAGE, simple_pod, wait_until

pytestmark = pytest.mark.integration


def waiting_reason(pod: Any) -> str:
    statuses = pod["status"].get("containerStatuses") or [{}]
    return str(statuses[0].get("state", {}).get("waiting", {}).get("reason", ""))


def test_node_reports_no_features(node: Node) -> None:
    status = node.api.get("/api/v1/nodes/node-1")["status"]

    assert not {"features", "runtimeHandlers", "declaredFeatures"} & status.keys()


@pytest.mark.parametrize(
    ("name", "spec", "reason", "message"),
    [
        (
            "strict",
            {"securityContext": {"supplementalGroupsPolicy": "Strict"}},
            "SupplementalGroupsPolicyNotSupported",
            "SupplementalGroupsPolicy=Strict is not supported in this node",
        ),
        (
            "image",
            {"volumes": [{"name": "v", "image": {"reference": IMAGE, "pullPolicy": "IfNotPresent"}}]},
            "PodFieldNotSupported",
            "Image volumes are not supported by the container runtime of this node",
        ),
    ],
)
def test_pod_that_needs_a_missing_feature_is_rejected(
    node: Node, name: str, spec: dict[str, Any], reason: str, message: str
) -> None:
    node.api.create_pod(simple_pod(name, **spec))

    status = node.phase(name, "Failed")["status"]

    assert status["reason"] == reason
    assert message in status["message"]
    node.remove(name)


def test_recursive_read_only_mount_is_not_made_silently_writable(node: Node) -> None:
    mounts = {
        mode: {"name": "v", "mountPath": "/v", "readOnly": True, "recursiveReadOnly": mode}
        for mode in ("Enabled", "IfPossible")
    }
    volumes = [{"name": "v", "emptyDir": {}}]
    for mode, mount in mounts.items():
        pod = simple_pod(f"rro-{mode.lower()}", container={"volumeMounts": [mount]}, volumes=volumes)
        node.api.create_pod(pod)

    waiting = node.until("rro-enabled", lambda p: waiting_reason(p) == "CreateContainerConfigError", "the pod waits")
    running = node.phase("rro-ifpossible", "Running")

    message = waiting["status"]["containerStatuses"][0]["state"]["waiting"]["message"]
    assert 'volume "v" requested recursive read-only mode, but it is not supported by the runtime' in message
    assert running["status"]["containerStatuses"][0]["volumeMounts"] == [
        {"name": "v", "mountPath": "/v", "readOnly": True, "recursiveReadOnly": "Disabled"}
    ]
    node.remove("rro-enabled", "rro-ifpossible")


def test_static_pod_with_host_users_false_gets_no_sandbox(node: Node) -> None:
    manifest = node.agent.write_pod(simple_pod("users", hostUsers=False))

    def note() -> str:
        events = node.api.events("users-node-1")
        return next((event["note"] for event in events if event["reason"] == "FailedCreatePodSandBox"), "")

    text = wait_until(note, "the sandbox fails")

    assert text.endswith('the feature gate "UserNamespacesSupport" is disabled: can\'t set spec.HostUsers')
    manifest.unlink()
    node.gone("users-node-1")

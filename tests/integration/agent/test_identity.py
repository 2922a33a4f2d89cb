"""Tests for the identity flags: API server and agent with another API domain."""

from __future__ import annotations

from pathlib import Path

from tests.integration.agent.conftest import Node
from tests.integration.containerd import Containerd
from tests.integration.programs import ApiServer, NodeAgent, simple_pod, wait_until


def test_pod_runs_with_another_api_domain(containerd: Containerd, tmp_path: Path) -> None:
    names = ["--api-domain", "example.com", "--label-domain", "platform.example.com"]
    api, agent = ApiServer(tmp_path), NodeAgent(tmp_path, containerd.endpoint)
    agent.api, agent.arguments = api, names
    node = Node(containerd, api, agent)
    try:
        api.start(*names)
        agent.start(apiVersion="nodeagent.config.example.com/v1beta1")
        agent.write_pod(simple_pod("static"))

        mirror = node.phase("static-node-1", "Running")

        assert "platform.example.com/config.mirror" in mirror["metadata"]["annotations"]
        lease = api.get("/apis/coordination.example.com/v1/namespaces/kube-node-lease/leases/node-1")
        assert lease["spec"]["holderIdentity"] == "node-1"
        labels = api.get("/api/v1/nodes/node-1")["metadata"]["labels"]
        assert labels["platform.example.com/hostname"] == "node-1"

        def recorded() -> bool:
            events = api.get("/apis/events.example.com/v1/namespaces/default/events")["items"]
            return any(event["reason"] == "Started" for event in events)

        wait_until(recorded, "events arrive in the renamed group")
    finally:
        agent.stop()
        api.stop()
        containerd.remove_pods()

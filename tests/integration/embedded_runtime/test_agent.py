"""Tests for the agent on a host without a container runtime: it starts the embedded one and keeps it running."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from nodeagent_plugins.embedded_runtime.passable_root import alias_of
from nodeagent_plugins.embedded_runtime.supervisor import find_server
from tests.integration.agent.conftest import Node, _ready
from tests.integration.containerd import Network
from tests.integration.programs import IMAGE, ApiServer, NodeAgent, simple_pod, wait_until

pytestmark = [pytest.mark.integration, pytest.mark.row("card.embedded-runtime")]


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    """Node whose agent starts the runtime."""
    directory = tmp_path_factory.mktemp("node")
    home = Path(tempfile.mkdtemp(prefix="embedded-"))
    alias = alias_of(home / "agent/embedded-runtime")
    network = Network()
    api = ApiServer(directory)
    agent = NodeAgent(directory, f"unix://{home}/cri.sock", api)
    agent.root = home / "agent"  # The runtime has its default location below, closed to other users.
    settings = {"enabled": True, "bridge": network.bridge, "podCIDR": network.subnet}
    agent.plugins = {"embedded_runtime": settings}
    node = Node(None, api, agent)  # type: ignore[arg-type]  (there is no containerd)
    node.bridge = network.bridge  # type: ignore[attr-defined]
    try:
        api.start("--feature-gates=InPlacePodVerticalScaling=true,UserNamespacesSupport=true")
        gates = {"EventedPLEG": True, "InPlacePodVerticalScaling": True, "UserNamespacesSupport": True}
        agent.start(featureGates=gates, hairpinMode="hairpin-veth")
        wait_until(lambda: _ready(api), "the node is Ready")
        yield node
    finally:
        agent.stop()
        api.stop()
        server = find_server(home / "cri.sock")
        if server is not None:
            os.kill(server.pid, signal.SIGTERM)
        for point in reversed([line.split()[1] for line in Path("/proc/self/mounts").read_text().splitlines()]):
            if point.startswith((f"{home}/", f"{alias}")):
                subprocess.run(["umount", "--lazy", point], check=False)
        if alias.exists():
            alias.rmdir()
        for kind in ("ip", "bridge"):
            subprocess.run(["nft", "delete", "table", kind, f"nodeagent_{network.bridge}"], check=False)
        network.close()
        subprocess.run(["rm", "-rf", str(home)], check=False)


def test_pod_runs_without_an_installed_runtime(node: Node) -> None:
    node.api.create_pod(simple_pod("plain", "echo hello; exec sleep 1000000"))
    try:
        pod = node.phase("plain", "Running")
        assert pod["status"]["podIP"]
        wait_until(lambda: node.log(pod) == "hello", "the pod says hello")
    finally:
        node.remove("plain")


def test_container_exit_is_detected_by_events_without_relisting(node: Node) -> None:
    node.api.create_pod(simple_pod("brief", "sleep 3; exit 0", restartPolicy="Never"))
    try:
        node.phase("brief", "Running")
        listings = node.listings()
        node.phase("brief", "Succeeded", 30)
        # One may have been due before the first event; without events there is one per second.
        assert node.listings() <= listings + 1
    finally:
        node.remove("brief")


def test_resized_container_reports_the_limits_of_the_runtime(node: Node) -> None:
    def sized(cpu: str, memory: str) -> dict[str, dict[str, str]]:
        return {"requests": {"cpu": cpu, "memory": memory}, "limits": {"cpu": cpu, "memory": memory}}

    command = "cd /sys/fs/cgroup; while sleep 0.2; do cat memory/memory.limit_in_bytes memory.max 2>/dev/null; done"
    container = {"resources": sized("100m", "64Mi")}
    node.api.create_pod(simple_pod("grows", command, container=container))
    try:
        before = node.phase("grows", "Running")
        larger = sized("150m", "96Mi")
        patch = {"spec": {"containers": [{"name": "main", "resources": larger}]}}
        path, strategic = "/api/v1/namespaces/default/pods/grows/resize", "application/strategic-merge-patch+json"
        node.api.request("PATCH", path, patch, strategic)
        after = node.until(
            "grows", lambda pod: pod["status"]["containerStatuses"][0].get("resources") == larger, "it is resized"
        )
        ids = [pod["status"]["containerStatuses"][0]["containerID"] for pod in (before, after)]
        assert ids[0] == ids[1]
        wait_until(lambda: node.log(after).splitlines()[-1:] == [str(96 * 1024**2)], "the limit is in effect")
    finally:
        node.remove("grows")


def _hairpins(node: Node) -> set[bool]:
    """Return the hairpin flags of the pods' bridge ports."""
    command = ["ip", "-d", "-j", "link", "show", "master", node.bridge]  # type: ignore[attr-defined]
    found = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)
    return {port["linkinfo"]["info_slave_data"]["hairpin"] for port in found}


@pytest.mark.row("config.hairpinMode")
def test_changed_hairpin_mode_applies_to_running_pods(node: Node) -> None:
    node.api.create_pod(simple_pod("steady"))
    try:
        node.phase("steady", "Running")
        assert _hairpins(node) == {True}
        node.agent.stop()
        node.agent.start(hairpinMode="none")
        wait_until(lambda: _hairpins(node) == {False}, "the pod has the new mode")
    finally:
        node.remove("steady")


def test_pods_and_runtime_survive_an_agent_restart(node: Node) -> None:
    node.api.create_pod(simple_pod("steady"))
    try:
        before = node.phase("steady", "Running")
        socket = Path(node.agent.endpoint.removeprefix("unix://"))
        server = find_server(socket)
        node.agent.stop()
        assert find_server(socket) == server
        node.agent.start()
        wait_until(lambda: _ready(node.api), "the node is Ready")
        after = node.phase("steady", "Running")
        names = ("containerID", "restartCount", "state")
        first, again = (pod["status"]["containerStatuses"][0] for pod in (before, after))
        assert [first[name] for name in names] == [again[name] for name in names]
    finally:
        node.remove("steady")


def test_node_reports_the_features_of_the_runtime(node: Node) -> None:
    status = node.api.get("/api/v1/nodes/node-1")["status"]

    assert status["features"] == {"supplementalGroupsPolicy": True}
    (handler,) = status["runtimeHandlers"]
    assert handler["features"]["recursiveReadOnlyMounts"] is True


def test_pod_with_image_volume_and_strict_groups_runs(node: Node) -> None:
    mount = {"name": "image", "mountPath": "/image", "readOnly": True, "recursiveReadOnly": "Enabled"}
    node.api.create_pod(
        simple_pod(
            "features",
            "test -x /image/bin/sh && echo found; id -G; exec sleep 1000",
            container={"volumeMounts": [mount]},
            volumes=[{"name": "image", "image": {"reference": IMAGE, "pullPolicy": "IfNotPresent"}}],
            securityContext={"runAsUser": 1000, "runAsGroup": 500, "supplementalGroupsPolicy": "Strict"},
        )
    )

    def running() -> bool:
        pod = node.api.pod("features")
        assert pod["status"].get("reason") is None, pod["status"]
        return pod["status"]["phase"] == "Running"

    wait_until(running, "the pod runs", 60)
    (status,) = node.api.pod("features")["status"]["containerStatuses"]

    assert status["user"]["linux"] == {"uid": 1000, "gid": 500, "supplementalGroups": [500]}
    assert status["volumeMounts"][0]["recursiveReadOnly"] == "Enabled"
    (log,) = (node.agent.logs / "pods").glob("default_features_*/main/0.log")
    wait_until(lambda: len(log.read_text().splitlines()) == 2, "the container has written")
    assert [line.split(" ", 3)[3] for line in log.read_text().splitlines()] == ["found", "500"]
    node.api.delete_pod("features", grace=0)
    wait_until(lambda: node.api.pod("features") is None, "the pod is deleted")


def test_pod_with_host_users_false_has_its_own_user_namespace(node: Node) -> None:
    script = "cat /proc/self/uid_map; id -u; touch /data/made && echo written; exec sleep 1000"
    mount = {"name": "data", "mountPath": "/data"}
    pod = simple_pod(
        "users",
        script,
        container={"volumeMounts": [mount]},
        volumes=[{"name": "data", "emptyDir": {}}],
        hostUsers=False,
    )
    uid = node.api.create_pod(pod)["metadata"]["uid"]
    wait_until(lambda: node.api.pod("users")["status"]["phase"] == "Running", "the pod runs", 60)
    (log,) = (node.agent.logs / "pods").glob("default_users_*/main/0.log")
    wait_until(lambda: len(log.read_text().splitlines()) == 3, "the container has written")

    stored = json.loads((node.agent.root / "pods" / uid / "userns").read_text())
    (mapping,) = stored["uidMappings"]
    lines = [line.split(" ", 3)[3] for line in log.read_text().splitlines()]
    assert lines[0].split() == ["0", str(mapping["hostId"]), "65536"]
    assert (mapping["hostId"] >= 65536, lines[1:]) == (True, ["0", "written"])
    made = node.agent.root / "pods" / uid / "volumes/kubernetes.io~empty-dir/data/made"
    assert made.stat().st_uid == 0

    node.api.delete_pod("users", grace=0)
    wait_until(lambda: not (node.agent.root / "pods" / uid).exists(), "the pod's directory is removed", 60)

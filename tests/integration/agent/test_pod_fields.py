"""Tests for pod fields of releases after 1.29, on a node that follows release 1.36."""

from __future__ import annotations

import contextlib
import json
import ssl
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import websocket

from nodeagent_plugins.cgroups.hierarchy import find_hierarchy
from nodeagent_plugins.pod_admission.apparmor import is_enabled
from tests.integration.containerd import Containerd
from tests.integration.programs import IMAGE, NodeAgent, simple_pod, wait_until
from tests.integration.reference import new_api_server

from .conftest import Node, _ready


@pytest.fixture(scope="module")
def node(containerd: Containerd, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    """Running node of release 1.36; a test removes the static pods that it wrote."""
    directory = tmp_path_factory.mktemp("node")
    api = new_api_server(directory)
    agent = NodeAgent(directory, containerd.endpoint, api)
    agent.arguments += ["--compatibility-version", "1.36"]
    try:
        api.start()
        agent.start(failCgroupV1=False)  # The host may have cgroup v1.
        wait_until(lambda: _ready(api), "the node is Ready")
        yield Node(containerd, api, agent)
    finally:
        agent.stop()
        api.stop()
        containerd.remove_pods()


def shell(name: str, script: str, **container: Any) -> dict[str, Any]:
    return {"name": name, "image": IMAGE, "command": ["sh", "-c", script], **container}


def static(node: Node, name: str, *containers: dict[str, Any], **spec: Any) -> Callable[[str], str]:
    """Run a static pod; return a function that returns the output of a container."""
    spec = {"containers": list(containers), "terminationGracePeriodSeconds": 1, **spec}
    metadata = {"name": name, "uid": f"uid-{name}"}
    node.agent.write_pod({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})
    pod = {"metadata": {"namespace": "default", "name": f"{name}-node-1", "uid": f"uid-{name}"}}
    return lambda container: node.log(pod, container)


def test_variable_is_read_from_a_file_of_an_init_container(node: Node) -> None:
    mount = {"volumeMounts": [{"name": "shared", "mountPath": "/shared"}]}
    reference = {"volumeName": "shared", "path": "dir/env", "key": "GREETING"}
    env = [{"name": "1 odd.name", "value": "yes"}, {"name": "VALUE", "valueFrom": {"fileKeyRef": reference}}]

    log = static(
        node,
        "env-file",
        shell("main", "echo $VALUE; tr '\\0' '\\n' < /proc/1/environ | grep odd", env=env),
        initContainers=[
            shell("write", "mkdir /shared/dir; echo \"GREETING='hello there'\" > /shared/dir/env", **mount)
        ],
        volumes=[{"name": "shared", "emptyDir": {}}],
        restartPolicy="Never",
    )

    wait_until(lambda: log("main") == "hello there\n1 odd.name=yes", "the variables are set")


def test_container_restarts_by_a_rule_for_its_exit_code(node: Node) -> None:
    rule = {"action": "Restart", "exitCodes": {"operator": "In", "values": [3]}}
    script = "if [ -e /state/second ]; then echo second; exit 0; fi; touch /state/second; exit 3"

    log = static(
        node,
        "rules",
        shell(
            "main",
            script,
            restartPolicy="Never",
            restartPolicyRules=[rule],
            volumeMounts=[{"name": "state", "mountPath": "/state"}],
        ),
        shell("once", "echo once; exit 3", restartPolicy="Never"),
        volumes=[{"name": "state", "emptyDir": {}}],
    )

    wait_until(lambda: log("main") == "second", "the container is restarted")
    assert log("once") == "once"


def test_all_containers_restart_by_a_rule_for_an_exit_code(node: Node) -> None:
    rule = {"action": "RestartAllContainers", "exitCodes": {"operator": "In", "values": [42]}}
    mount = {"volumeMounts": [{"name": "state", "mountPath": "/state"}]}

    log = static(
        node,
        "in-place",
        shell(
            "trigger",
            "if [ -e /state/second ]; then cat /state/init; exit 0; fi; touch /state/second; exit 42",
            restartPolicy="Never",
            restartPolicyRules=[rule],
            **mount,
        ),
        shell("other", "if [ -e /state/second ]; then echo again; fi; exec sleep 600", **mount),
        initContainers=[shell("init", "echo run >> /state/init", **mount)],
        volumes=[{"name": "state", "emptyDir": {}}],
        restartPolicy="Never",
    )

    wait_until(lambda: log("trigger") == "run\nrun", "the init container runs again and the volume is kept")
    wait_until(lambda: log("other") == "again", "the other container is restarted")


def test_websocket_of_a_current_client_ends_at_the_node(node: Node) -> None:
    node.api.create_pod(simple_pod("web", nodeName="node-1", terminationGracePeriodSeconds=1))
    node.phase("web", "Running")
    stream = websocket.create_connection(
        f"wss://127.0.0.1:{node.agent.port}/exec/default/web/main?command=sh&command=-c"
        "&command=cat;echo%20bad%20%3E%262;exit%203&input=1&output=1&error=1",
        subprotocols=["v5.channel.k8s.io"],
        header={"Authorization": f"Bearer {node.api.facts['token']}"},
        sslopt={"cert_reqs": ssl.CERT_NONE},
        timeout=30,
    )
    received: dict[int, bytes] = {}
    try:
        for message in (b"\0hello", b"\xff\0"):
            stream.send_binary(message)
        while data := stream.recv():
            received[data[0]] = received.get(data[0], b"") + data[1:]
    finally:
        stream.shutdown()

    assert received[1] == b"hello"
    assert received[2] == b"bad\n"
    assert json.loads(received[3])["details"]["causes"] == [{"reason": "ExitCode", "message": "3"}]
    declared = node.api.get("/api/v1/nodes/node-1")["status"].get("declaredFeatures") or []
    assert "ExtendWebSocketsToKubelet" in declared
    node.remove("web")


def test_hostname_is_overridden(node: Node) -> None:
    override = {"hostnameOverride": "other.example.org", "restartPolicy": "Never", "nodeName": "node-1"}
    node.api.create_pod(simple_pod("override", "hostname; tail -n 1 /etc/hosts", **override))

    pod = node.phase("override", "Succeeded")

    address = pod["status"]["podIP"]
    wait_until(
        lambda: node.log(pod) == f"other.example.org\n{address}\tother.example.org", "host name and hosts file are set"
    )
    node.remove("override")


def test_pod_with_unsupported_field_is_rejected(node: Node) -> None:
    pod = simple_pod("signal", nodeName="node-1")
    pod["spec"]["containers"][0]["lifecycle"] = {"stopSignal": "SIGUSR1", "preStop": {"exec": {"command": ["true"]}}}
    node.api.create_pod(pod)

    status = node.phase("signal", "Failed")["status"]

    assert status["reason"] == "PodFieldNotSupported"
    assert 'spec.containers[0].lifecycle.stopSignal: "SIGUSR1"' in status["message"]
    wait_until(lambda: "PodFieldNotSupported" in node.reasons("signal"), "the event arrives")
    node.remove("signal")


@pytest.mark.parametrize("kind", ["RuntimeDefault", "Unconfined"])
def test_apparmor_profile_of_a_field_needs_apparmor(node: Node, kind: str) -> None:
    profile = {"securityContext": {"appArmorProfile": {"type": kind}}, "restartPolicy": "Never", "nodeName": "node-1"}
    name = f"apparmor-{kind.lower()}"
    node.api.create_pod(simple_pod(name, "true", **profile))

    enforced = kind == "Unconfined" or is_enabled()
    status = node.phase(name, "Succeeded" if enforced else "Failed")["status"]

    assert status.get("reason") == (None if enforced else "AppArmor")
    node.remove(name)


def test_rejected_static_pod_is_explained(node: Node) -> None:
    static(node, "signaled", shell("main", "true", lifecycle={"stopSignal": "SIGUSR1"}))

    def explained() -> Any:
        command = [sys.executable, "-m", "nodeagent", "why", "pod/default/signaled-node-1", "-o", "json"]
        done = subprocess.run(
            [*command, "--root-dir", str(node.agent.root)], check=False, capture_output=True, text=True, timeout=60
        )
        found = json.loads(done.stdout) if done.stdout else {}
        return found if found.get("phase") == "Failed" else None

    found = wait_until(explained, "the pod is rejected")

    assert found["reason"] == "PodFieldNotSupported"
    assert "spec.containers[0].lifecycle.stopSignal:" in found["cause"]
    assert "remove the fields" in found["remedy"]


def test_container_is_stopped_after_its_sleep(node: Node) -> None:
    hook = {"lifecycle": {"preStop": {"sleep": {"seconds": 3}}}}
    script = "trap 'exit 0' TERM; while true; do echo alive; sleep 0.2; done"
    log = static(node, "sleeper", shell("main", script, **hook), terminationGracePeriodSeconds=20)
    wait_until(lambda: log("main"), "the container runs")

    before = len(log("main").splitlines())
    (node.agent.manifests / "sleeper.yaml").unlink()
    output = ""

    def stopped() -> bool:
        nonlocal output
        output = log("main") or output
        return not node.agent.root.joinpath("pods", "uid-sleeper").exists()

    wait_until(stopped, "the pod is gone")
    assert len(output.splitlines()) >= before + 5  # A stop without the hook ends the output immediately.


def test_limit_of_the_pod_is_enforced_for_pod_and_container(node: Node) -> None:
    resources = {"requests": {"cpu": "10m", "memory": "32Mi"}, "limits": {"cpu": "500m", "memory": "64Mi"}}
    script = "cat /sys/fs/cgroup/memory.max /sys/fs/cgroup/memory/memory.limit_in_bytes 2>/dev/null; exec sleep 1000"
    node.api.create_pod(simple_pod("limited", script, resources=resources, nodeName="node-1"))

    pod = node.phase("limited", "Running")

    assert pod["status"]["qosClass"] == "Burstable"
    wait_until(lambda: node.log(pod) == str(64 << 20), "the container has the limit")
    assert memory_limit(pod["metadata"]["uid"]) == 64 << 20
    node.remove("limited")


def memory_limit(uid: str) -> int:
    """Return the memory limit of a pod's cgroup, which the cgroup of its processes is in."""
    hierarchy = find_hierarchy(Path("/proc/self/mountinfo").read_text())
    assert hierarchy is not None
    for file in Path("/proc").glob("[0-9]*/cgroup"):
        with contextlib.suppress(OSError):
            for line in file.read_text().splitlines():
                before, found, _ = line.partition(f"/pod{uid}")
                if found and (":memory:" in line or line.startswith("0::")):
                    name = tuple(f"{before.split(':', 2)[2]}{found}".strip("/").split("/"))
                    limit = "memory.max" if hierarchy.unified else "memory.limit_in_bytes"
                    path = hierarchy.file("memory", name, limit)
                    assert path is not None
                    return int(path.read_text())
    raise AssertionError("no process of the pod")

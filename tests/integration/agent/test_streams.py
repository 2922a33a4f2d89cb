"""Tests for streams with kubectl and the Python client, through API server, agent and runtime."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from kubernetes import client, config
from kubernetes import stream as client_stream
from kubernetes import watch as client_watch

from tests.integration.agent.conftest import Node
from tests.integration.containerd import Containerd
from tests.integration.kubectl import KUBECTLS, kubectl_of
from tests.integration.programs import ApiServer, NodeAgent, free_port, simple_pod, wait_until

COUNTS = 'i=0; while [ $i -lt 2000 ]; do echo "line $i"; i=$((i+1)); done; exec httpd -f -p 8080 -h /'


@pytest.fixture(params=KUBECTLS)
def any_kubectl(request: pytest.FixtureRequest) -> Iterator[None]:
    """Runs a test with all versions of kubectl."""
    with kubectl_of(request.param):
        yield


@pytest.fixture(scope="module")
def node(containerd: Containerd, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    """Node whose agent verifies the API server's client certificate and listens on loopback."""
    directory = tmp_path_factory.mktemp("streams")
    api = ApiServer(directory)
    agent = NodeAgent(directory, containerd.endpoint, api)
    try:
        api.start()
        agent.arguments = ["--node-ip", "127.0.0.1"]
        agent.start(authentication={"x509": {"clientCAFile": api.facts["clientCaFile"]}})
        found = Node(containerd, api, agent)
        wait_until(lambda: api.get("/api/v1/nodes/node-1")["kind"] == "Node", "the node is there")
        api.create_pod(simple_pod("web", COUNTS, nodeName="node-1"))
        found.phase("web", "Running")
        yield found
    finally:
        agent.stop()
        api.stop()
        containerd.remove_pods()


def kubectl(node: Node, *arguments: str, stdin: bytes | None = None, code: int = 0) -> str:
    """Run kubectl as the administrator, check that it exits with *code*, and return its output."""
    result = subprocess.run(
        ["kubectl", *arguments], input=stdin, capture_output=True, timeout=60, check=False, env=_environment(node)
    )
    assert result.returncode == code, f"{arguments}: {result.stdout!r}{result.stderr!r}"
    return (result.stdout + result.stderr).decode()


def _environment(node: Node) -> dict[str, str]:
    return {**os.environ, "KUBECONFIG": node.api.facts["kubeconfig"], "HOME": str(node.api.data)}


def test_logs(node: Node) -> None:
    lines = kubectl(node, "logs", "web").splitlines()
    assert lines[:2] == ["line 0", "line 1"]
    assert len(lines) == 2000
    assert kubectl(node, "logs", "web", "--tail=2").splitlines() == ["line 1998", "line 1999"]
    assert kubectl(node, "logs", "web", "-c", "nope", code=1).count("container nope is not valid for pod web") == 1
    failed = kubectl(node, "logs", "web", "--previous", code=1)
    assert "previous terminated container" in failed


@pytest.mark.usefixtures("any_kubectl")
def test_logs_are_followed_until_the_reader_leaves(node: Node) -> None:
    with subprocess.Popen(
        ["kubectl", "logs", "-f", "--tail=1", "web"], stdout=subprocess.PIPE, text=True, env=_environment(node)
    ) as reader:
        assert reader.stdout is not None
        assert reader.stdout.readline() in ("line 1999\n", "more\n")  # As the previous reader left it.
        kubectl(node, "exec", "web", "--", "sh", "-c", "echo more > /proc/1/fd/1")
        assert reader.stdout.readline() == "more\n"
        reader.terminate()


@pytest.mark.usefixtures("any_kubectl")
@pytest.mark.parametrize("websocket", ["true", "false"])
def test_exec_forwards_streams_and_the_exit_code(node: Node, websocket: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBECTL_REMOTE_COMMAND_WEBSOCKETS", websocket)  # Otherwise SPDY.
    assert kubectl(node, "exec", "web", "--", "echo", "a b", "c") == "a b c\n"
    assert kubectl(node, "exec", "-i", "web", "--", "cat", stdin=b"x" * 300_000) == "x" * 300_000
    failed = kubectl(node, "exec", "web", "--", "sh", "-c", "echo out; echo err >&2; exit 7", code=7)
    assert "out\n" in failed
    assert "err\n" in failed
    assert "terminated with exit code 7" in failed
    assert "a host assigned" in _unscheduled(node)


def _unscheduled(node: Node) -> str:
    pod = simple_pod("nowhere", nodeSelector={"no": "where"}, schedulerName="none")
    node.api.create_pod(pod)
    try:
        return kubectl(node, "exec", "nowhere", "--", "true", code=1)
    finally:
        node.api.delete_pod("nowhere", grace=0)


@pytest.mark.usefixtures("any_kubectl")
def test_copying(node: Node, tmp_path: Path) -> None:
    there, back = tmp_path / "there", tmp_path / "back"
    there.write_bytes(os.urandom(3_000_000))
    kubectl(node, "cp", str(there), "default/web:/tmp/copy")
    kubectl(node, "cp", "default/web:/tmp/copy", str(back))
    assert back.read_bytes() == there.read_bytes()


@pytest.mark.usefixtures("any_kubectl")
def test_port_forward(node: Node) -> None:
    port = free_port()
    with subprocess.Popen(
        ["kubectl", "port-forward", "pod/web", f"{port}:8080"],
        stdout=subprocess.PIPE,
        text=True,
        env=_environment(node),
    ) as forwarding:
        assert forwarding.stdout is not None
        assert "Forwarding from" in forwarding.stdout.readline()
        for _ in range(3):
            with socket.create_connection(("127.0.0.1", port), timeout=20) as client:
                client.sendall(b"GET /etc/passwd HTTP/1.0\r\n\r\n")
                response = b"".join(iter(lambda: client.recv(65536), b""))
            assert b"200 OK" in response
            assert b"nobody:" in response
        forwarding.terminate()


@pytest.mark.usefixtures("any_kubectl")
def test_attach_and_run(node: Node) -> None:
    command = ["--restart=Never", "--image", "docker.io/library/busybox:1.36", "--image-pull-policy=IfNotPresent"]
    override = '{"spec": {"nodeName": "node-1", "automountServiceAccountToken": false}}'
    output = kubectl(
        node, "run", "job", "-i", "--rm", *command, f"--overrides={override}", "--", "cat", stdin=b"hello from here\n"
    )
    assert "hello from here" in output
    assert "deleted" in output


def test_debug_adds_an_ephemeral_container(node: Node) -> None:
    image = "docker.io/library/busybox:1.36"
    kubectl(
        node,
        "debug",
        "web",
        "--image",
        image,
        "--container=probe",
        "--image-pull-policy=IfNotPresent",
        "--",
        "sleep",
        "60",
    )

    def runs() -> bool:
        states = node.api.pod("web")["status"].get("ephemeralContainerStatuses") or []
        return any("running" in item.get("state", {}) for item in states)

    wait_until(runs, "the container to debug with runs")
    assert kubectl(node, "exec", "web", "-c", "probe", "--", "echo", "inside") == "inside\n"


@pytest.fixture
def core(node: Node) -> Iterator[Any]:
    """Official Python client as the administrator."""
    configuration = client.Configuration()
    config.load_kube_config(node.api.facts["kubeconfig"], client_configuration=configuration, persist_config=False)
    with client.ApiClient(configuration) as api:
        yield client.CoreV1Api(api)
        api.rest_client.pool_manager.clear()


def test_python_client_runs_commands(node: Node, core: Any) -> None:
    command = ["sh", "-c", "echo out; echo err >&2; read line; echo got $line"]
    stream = client_stream.stream(
        core.connect_get_namespaced_pod_exec,
        "web",
        "default",
        container="main",
        command=command,
        stdin=True,
        stdout=True,
        stderr=True,
        _preload_content=False,
    )
    assert stream.readline_stdout(timeout=20) == "out"
    stream.write_stdin("this\n")
    stream.run_forever(timeout=20)
    assert "got this" in stream.read_stdout()
    assert "err" in stream.read_stderr()
    assert stream.returncode == 0
    stream.close()
    stream.sock.shutdown()  # The client leaves it open if the other side closes first.


def test_python_client_reads_logs(core: Any) -> None:
    assert core.read_namespaced_pod_log("web", "default", container="main", limit_bytes=7) == "line 0\n"


def test_python_client_watches(core: Any) -> None:
    listed = core.list_namespaced_config_map("default")
    name = "watched"
    core.create_namespaced_config_map("default", client.V1ConfigMap(metadata=client.V1ObjectMeta(name=name)))
    core.patch_namespaced_config_map(name, "default", {"data": {"a": "b"}})
    core.delete_namespaced_config_map(name, "default")
    seen = []
    watch = client_watch.Watch()
    for event in watch.stream(
        core.list_namespaced_config_map,
        "default",
        resource_version=listed.metadata.resource_version,
        field_selector=f"metadata.name={name}",
        timeout_seconds=2,
    ):
        seen.append((event["type"], event["object"].data))
    assert seen == [("ADDED", None), ("MODIFIED", {"a": "b"}), ("DELETED", {"a": "b"})]


def test_stop_of_the_server_closes_streams(node: Node) -> None:
    with subprocess.Popen(
        ["kubectl", "exec", "web", "--", "sleep", "600"], stderr=subprocess.PIPE, env=_environment(node)
    ) as running:
        time.sleep(0.5)
        node.api.stop()
        running.wait(20)  # The exit code depends on the protocol.
    node.api.start()
    with contextlib.suppress(AssertionError):
        kubectl(node, "get", "pods")
    assert kubectl(node, "exec", "web", "-c", "main", "--", "echo", "again") == "again\n"

"""Tests for the lifecycle of pods of all three sources, on a real runtime."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar

import grpc
import pytest
import yaml

from nodeagent import __version__
from tests.integration.agent.conftest import Node
from tests.integration.programs import IMAGE, NodeAgent, simple_pod, wait_until


@pytest.mark.row("card.cri", "config.containerRuntimeEndpoint", "card.apiserver")
def test_pod_of_the_api_runs_and_is_deleted_gracefully(node: Node) -> None:
    node.api.create_pod(
        simple_pod("web", "echo hello; trap 'exit 0' TERM; while true; do sleep 0.1; done", nodeName="node-1")
    )

    pod = node.phase("web", "Running")

    assert pod["status"]["podIP"].startswith(node.runtime.subnet.rsplit(".", 1)[0])
    assert pod["status"]["containerStatuses"][0]["ready"] is True
    assert pod["status"]["qosClass"] == "BestEffort"
    wait_until(lambda: node.log(pod) == "hello", "the log is written")
    wait_until(lambda: {"Pulled", "Created", "Started"} <= node.reasons("web"), "events arrive")

    response = node.api.delete_pod("web", grace=20)

    assert response["metadata"]["deletionTimestamp"]
    node.gone("web")
    wait_until(lambda: "Killing" in node.reasons("web"), "the end is told")


@pytest.mark.row("config.staticPodPath")
def test_static_pod_has_a_mirror_pod_and_follows_its_file(node: Node) -> None:
    file = node.agent.write_pod(simple_pod("static", "echo from a file; exec sleep 1000"))

    mirror = node.phase("static-node-1", "Running")

    assert mirror["metadata"]["annotations"]["kubernetes.io/config.source"] == "file"
    assert mirror["metadata"]["ownerReferences"][0]["kind"] == "Node"
    wait_until(lambda: node.log(mirror) == "from a file", "the log is written")

    node.agent.write_pod(simple_pod("static", "echo changed; exec sleep 1000"))
    changed = node.until(
        "static-node-1",
        lambda pod: pod["metadata"]["uid"] != mirror["metadata"]["uid"] and pod["status"].get("phase") == "Running",
        "the mirror follows the file",
    )
    wait_until(lambda: node.log(changed) == "changed", "the new container writes")

    node.api.delete_pod("static-node-1", grace=0)
    node.until(
        "static-node-1", lambda pod: pod["metadata"]["uid"] != changed["metadata"]["uid"], "the mirror comes back"
    )

    file.unlink()
    node.gone("static-node-1")


class Manifests(BaseHTTPRequestHandler):
    pods: ClassVar[list[dict]] = []
    token = "letmein"

    def do_GET(self) -> None:
        if self.headers.get("X-Token") != self.token:
            self.send_error(403)
            return
        body = yaml.safe_dump({"apiVersion": "v1", "kind": "PodList", "items": self.pods}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None: ...


@pytest.mark.row("config.staticPodURL", "config.staticPodURLHeader", "config.httpCheckFrequency")
def test_pods_of_a_url_follow_its_content(node: Node, tmp_path) -> None:
    Manifests.pods = [simple_pod("from-url", hostNetwork=True)]
    server = ThreadingHTTPServer(("127.0.0.1", 0), Manifests)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    agent = NodeAgent(tmp_path, node.runtime.endpoint, node.api)
    try:
        node.agent.stop()  # Two agents on one runtime would stop each other's pods.
        agent.start(
            staticPodURL=f"http://127.0.0.1:{server.server_port}/pods",
            staticPodURLHeader={"X-Token": [Manifests.token]},
            httpCheckFrequency="1s",
        )
        node.phase("from-url-node-1", "Running")

        Manifests.pods = []

        node.gone("from-url-node-1", seconds=20)
        assert Manifests.token not in agent.log.read_text()
    finally:
        server.shutdown()
        server.server_close()
        agent.stop()
        node.agent.start()


@pytest.mark.parametrize(
    ("policy", "code", "phase"), [("Never", 0, "Succeeded"), ("Never", 3, "Failed"), ("OnFailure", 0, "Succeeded")]
)
def test_phase_of_a_completed_pod_follows_its_exit_code(node: Node, policy: str, code: int, phase: str) -> None:
    name = f"job-{policy.lower()}-{code}"
    node.api.create_pod(simple_pod(name, f"echo done; exit {code}", restartPolicy=policy, nodeName="node-1"))

    pod = node.phase(name, phase)

    state = pod["status"]["containerStatuses"][0]["state"]["terminated"]
    assert (state["exitCode"], state["reason"]) == (code, "Completed" if code == 0 else "Error")
    assert node.log(pod) == "done"  # Logs of a completed pod are still available.
    node.remove(name)


def test_crashing_container_is_restarted_with_backoff(node: Node) -> None:
    node.api.create_pod(simple_pod("crash", "exit 7", nodeName="node-1"))

    pod = node.until(
        "crash",
        lambda p: (
            (p["status"].get("containerStatuses") or [{}])[0].get("state", {}).get("waiting", {}).get("reason")
            == "CrashLoopBackOff"
        ),
        "the back-off shows",
    )

    status = pod["status"]["containerStatuses"][0]
    assert status["lastState"]["terminated"]["exitCode"] == 7
    assert status["restartCount"] >= 1
    assert "restarting failed container=main" in status["state"]["waiting"]["message"]
    wait_until(lambda: "BackOff" in node.reasons("crash"), "the back-off is told")
    node.remove("crash")


def test_init_containers_run_in_order_and_a_sidecar_keeps_running(node: Node) -> None:
    share = [{"name": "share", "mountPath": "/share"}]

    def init(name: str, command: str, **more: object) -> dict:
        return {"name": name, "image": IMAGE, "command": ["/bin/sh", "-c", command], "volumeMounts": share, **more}

    pod = simple_pod(
        "inits",
        "cat /share/order; exec sleep 1000",
        nodeName="node-1",
        container={"volumeMounts": share},
        initContainers=[
            init("first", "echo first >> /share/order"),
            init("side", "echo side >> /share/order; exec sleep 1000", restartPolicy="Always"),
            init("second", "echo second >> /share/order"),
        ],
        volumes=[{"name": "share", "emptyDir": {}}],
    )
    node.api.create_pod(pod)

    shown = node.phase("inits", "Running")

    wait_until(lambda: node.log(shown).splitlines() == ["first", "side", "second"], "the order is kept")
    statuses = {s["name"]: s for s in shown["status"]["initContainerStatuses"]}
    assert statuses["first"]["state"]["terminated"]["exitCode"] == 0
    assert "running" in statuses["side"]["state"]
    node.remove("inits")


def test_missing_image_is_reported_and_retried(node: Node) -> None:
    node.api.create_pod(simple_pod("noimage", container={"image": "127.0.0.1:1/none:1"}, nodeName="node-1"))

    pod = node.until(
        "noimage",
        lambda p: (
            (p["status"].get("containerStatuses") or [{}])[0].get("state", {}).get("waiting", {}).get("reason")
            in ("ErrImagePull", "ImagePullBackOff")
        ),
        "the failed pull shows",
    )

    assert "127.0.0.1:1/none:1" in pod["status"]["containerStatuses"][0]["state"]["waiting"]["message"]
    wait_until(lambda: "Failed" in node.reasons("noimage"), "the failed pull is told")
    node.remove("noimage")


def test_environment_from_fields_resources_config_maps_and_secrets(node: Node) -> None:
    node.api.request("POST", "/api/v1/namespaces/default/configmaps", {
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "cm"}, "data": {"color": "blue"}})  # fmt: skip
    node.api.request("POST", "/api/v1/namespaces/default/secrets", {
        "apiVersion": "v1", "kind": "Secret", "metadata": {"name": "sec"}, "stringData": {"key": "open"}})  # fmt: skip
    env = [
        {"name": "POD", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
        {"name": "LIMIT", "valueFrom": {"resourceFieldRef": {"resource": "limits.memory", "divisor": "1Mi"}}},
        {"name": "COLOR", "valueFrom": {"configMapKeyRef": {"name": "cm", "key": "color"}}},
        {"name": "KEY", "valueFrom": {"secretKeyRef": {"name": "sec", "key": "key"}}},
        {"name": "ALL", "value": "$(POD)/$(COLOR)/$(KEY)/$$(POD)/$(NOPE)"},
    ]
    container = {"env": env, "resources": {"limits": {"memory": "32Mi"}}}
    node.api.create_pod(
        simple_pod("env", 'echo "$ALL $LIMIT"; exec sleep 1000', container=container, nodeName="node-1")
    )

    pod = node.phase("env", "Running")

    wait_until(lambda: node.log(pod) == "env/blue/open/$(POD)/$(NOPE) 32", "the environment is right")
    node.remove("env")


def test_volumes_have_their_content_and_follow_the_config_map(node: Node) -> None:
    node.api.request("POST", "/api/v1/namespaces/default/configmaps", {
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "files"}, "data": {"a.txt": "one"}})  # fmt: skip
    volumes = [
        {"name": "cfg", "configMap": {"name": "files"}},
        {"name": "mem", "emptyDir": {"medium": "Memory"}},
        {"name": "info", "downwardAPI": {"items": [{"path": "name", "fieldRef": {"fieldPath": "metadata.name"}}]}},
        {"name": "all", "projected": {"sources": [
            {"configMap": {"name": "files", "items": [{"key": "a.txt", "path": "sub/b.txt"}]}},
            {"serviceAccountToken": {"path": "token", "expirationSeconds": 600}},
        ]}},
    ]  # fmt: skip
    mounts = [{"name": v["name"], "mountPath": f"/{v['name']}"} for v in volumes]
    command = (
        "cat /cfg/a.txt; echo; cat /info/name; echo; cat /all/sub/b.txt; echo; "
        "grep -c ' /mem tmpfs' /proc/mounts; cut -c1-2 /all/token; "
        "while [ $(cat /cfg/a.txt) = one ]; do sleep 0.2; done; echo saw $(cat /cfg/a.txt); exec sleep 1000"
    )
    pod = simple_pod("vols", command, volumes=volumes, container={"volumeMounts": mounts}, nodeName="node-1")
    node.api.create_pod(pod)
    shown = node.phase("vols", "Running")
    wait_until(lambda: node.log(shown).splitlines()[:5] == ["one", "vols", "one", "1", "ey"], "volumes are filled")

    node.api.request("PATCH", "/api/v1/namespaces/default/configmaps/files", {"data": {"a.txt": "two"}},
                     "application/merge-patch+json")  # fmt: skip
    node.api.request("PATCH", "/api/v1/namespaces/default/pods/vols", {"metadata": {"labels": {"touch": "1"}}},
                     "application/merge-patch+json")  # fmt: skip

    wait_until(lambda: node.log(shown).endswith("saw two"), "the change arrives", 90)
    node.remove("vols")


def test_probes_determine_readiness_and_restarts(node: Node, tmp_path: Path) -> None:
    container = {
        "readinessProbe": {"exec": {"command": ["test", "-f", "/state/ready"]}, "periodSeconds": 1},
        "livenessProbe": {
            "exec": {"command": ["test", "!", "-f", "/state/sick"]},
            "periodSeconds": 1,
            "failureThreshold": 1,
        },
        "volumeMounts": [{"name": "state", "mountPath": "/state"}],
    }
    volumes = [{"name": "state", "hostPath": {"path": str(tmp_path)}}]
    node.api.create_pod(
        simple_pod("probed", "exec sleep 1000", container=container, nodeName="node-1", volumes=volumes)
    )

    started = node.phase("probed", "Running")
    assert started["status"]["containerStatuses"][0]["ready"] is False
    (tmp_path / "ready").touch()
    node.until("probed", lambda p: p["status"]["containerStatuses"][0]["ready"], "readiness shows")
    (tmp_path / "sick").touch()
    node.until("probed", lambda p: p["status"]["containerStatuses"][0]["restartCount"], "liveness restarts it", 60)
    wait_until(lambda: {"Unhealthy", "Killing"} <= node.reasons("probed"), "probes are told of")
    node.remove("probed")


@contextlib.contextmanager
def health_service() -> Iterator[HealthService]:
    """gRPC health service on a host port."""
    service = HealthService()
    server = grpc.server(ThreadPoolExecutor(2))
    server.add_generic_rpc_handlers([service])
    service.port = server.add_insecure_port("0.0.0.0:0")
    server.start()
    try:
        yield service
    finally:
        server.stop(None).wait()


class HealthService(grpc.GenericRpcHandler):
    """Health service with one status for all checks: 1 is serving, 2 is not serving."""

    def __init__(self) -> None:
        self.status, self.port, self.request = 2, 0, b""

    def service(self, details: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler | None:
        return grpc.unary_unary_rpc_method_handler(self._check) if details.method.endswith("Health/Check") else None

    def _check(self, request: bytes, context: grpc.ServicerContext) -> bytes:
        self.request = request
        return bytes((0x08, self.status))


def test_probes_connect_to_real_sockets(node: Node) -> None:
    with health_service() as service:
        tcp = {"tcpSocket": {"port": 8080}, "periodSeconds": 1}
        http = {"httpGet": {"port": 8081, "path": "/index.html"}, "periodSeconds": 1, "failureThreshold": 60}
        command = "sleep 2; mkdir /w; touch /w/index.html; httpd -p 8081 -h /w; while true; do nc -l -p 8080; done"
        node.api.create_pod(simple_pod("sockets", command, container={"readinessProbe": tcp, "startupProbe": http}))
        probe = {"grpc": {"port": service.port, "service": "web"}, "periodSeconds": 1}
        node.api.create_pod(simple_pod("asking", container={"readinessProbe": probe}, hostNetwork=True))

        def ready(pod: Any) -> bool:
            return bool(pod["status"]["containerStatuses"][0]["ready"])

        assert not ready(node.phase("sockets", "Running"))
        node.until("sockets", ready, "something listens, so it is ready")
        node.until("asking", lambda pod: b"web" in service.request, "the health service was asked")
        assert not ready(node.phase("asking", "Running"))
        service.status = 1
        node.until("asking", ready, "the health service says that it serves")
    node.remove("sockets", "asking")


def test_hooks_run_and_termination_message_is_reported(node: Node) -> None:
    container = {
        "lifecycle": {
            "postStart": {"exec": {"command": ["/bin/sh", "-c", "echo started > /share/post"]}},
            "preStop": {"exec": {"command": ["/bin/sh", "-c", "echo stopping > /share/pre"]}},
        },
        "volumeMounts": [{"name": "share", "mountPath": "/share"}],
    }
    command = "trap 'cat /share/post /share/pre > /dev/termination-log; exit 4' TERM; while true; do sleep 0.1; done"
    pod = simple_pod(
        "hooks", command, container=container, volumes=[{"name": "share", "emptyDir": {}}], nodeName="node-1",
        restartPolicy="Never", activeDeadlineSeconds=4, terminationGracePeriodSeconds=10,
    )  # fmt: skip
    node.api.create_pod(pod)
    node.phase("hooks", "Running")

    ended = node.phase("hooks", "Failed", 40)

    assert ended["status"]["reason"] == "DeadlineExceeded"
    state = ended["status"]["containerStatuses"][0]["state"]["terminated"]
    assert (state["exitCode"], state["message"]) == (4, "started\nstopping\n")
    node.remove("hooks")


def test_security_context_and_host_name_apply_to_the_process(node: Node) -> None:
    container = {"securityContext": {"runAsUser": 1234, "runAsGroup": 99, "readOnlyRootFilesystem": True}}
    command = "id -u; id -g; hostname; grep -c web.example /etc/hosts; touch /x 2>&- || echo readonly; exec sleep 1000"
    pod = simple_pod(
        "secure", command, container=container, nodeName="node-1", hostname="custom",
        hostAliases=[{"ip": "192.0.2.7", "hostnames": ["web.example"]}],
    )  # fmt: skip
    node.api.create_pod(pod)

    shown = node.phase("secure", "Running")

    wait_until(
        lambda: node.log(shown).splitlines()[:4] == ["1234", "99", "custom", "1"] and "readonly" in node.log(shown),
        "the process sees it",
    )
    node.remove("secure")


def test_pod_over_the_nodes_capacity_is_rejected_with_its_reason(node: Node) -> None:
    container = {"resources": {"requests": {"cpu": "10000"}}}
    node.api.create_pod(simple_pod("huge", container=container, nodeName="node-1"))

    pod = node.phase("huge", "Failed")

    assert pod["status"]["reason"] == "OutOfcpu"
    assert pod["status"]["message"].startswith("Pod was rejected: Node didn't have enough resource: cpu")
    wait_until(lambda: "OutOfcpu" in node.reasons("huge"), "the refusal is told")
    node.remove("huge")


def test_node_reports_the_release_of_the_api_server(node: Node) -> None:
    found = wait_until(
        lambda: node.api.get("/api/v1/nodes/node-1").get("status", {}).get("nodeInfo"), "the node has a status"
    )

    assert found["kubeletVersion"] == found["kubeProxyVersion"] == f"v1.29.1+nodeagent-{__version__}"

"""Tests for ``nodeagent why``, ``status``, ``doctor`` and ``logs`` on a real node."""

from __future__ import annotations

import json
import os
import pty
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from nodeagent.base.tls import generate_ca, issue
from tests.integration.containerd import Containerd
from tests.integration.programs import NodeAgent, simple_pod, wait_until


class Node:
    """A node with healthy and blocked pods."""

    def __init__(self, agent: NodeAgent) -> None:
        self.agent = agent

    def run(self, *arguments: str, **options) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "nodeagent", *arguments]
        return subprocess.run(command, check=False, capture_output=True, text=True, timeout=60, **options)

    def query(self, *arguments: str):
        """Run a command and return its JSON output."""
        done = self.run(*arguments, "--root-dir", str(self.agent.root), "-o", "json")
        return json.loads(done.stdout) if done.stdout else {"error": done.stderr}

    def log_flags(self) -> list[str]:
        """Return the flags for the node's server and the operator's credentials."""
        directory, certificates = self.agent.directory, self.agent.directory / "pki"
        [certificate] = certificates.glob("*.crt")
        flags = {
            "--address": f"127.0.0.1:{self.agent.port}",
            "--kubeconfig": str(directory / "operator.kubeconfig"),
            "--certificate-authority": str(certificate),
        }
        return [word for pair in flags.items() for word in pair]

    def logs(self, *arguments: str, **options) -> subprocess.CompletedProcess[str]:
        return self.run("logs", *self.log_flags(), *arguments, **options)

    def why(self, name: str):
        return self.query("why", f"pod/default/{name}-node-1")


def write_credentials(directory: Path) -> Path:
    """Write a kubeconfig with a client certificate of an operator; return its CA file."""
    ca = generate_ca("operators")
    pair = issue(ca, "operator", client=True)
    (directory / "operators.crt").write_bytes(ca.certificate)
    (directory / "operator.crt").write_bytes(pair.certificate)
    (directory / "operator.key").write_bytes(pair.key)
    user = {"client-certificate": "operator.crt", "client-key": "operator.key"}
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "a",
        "contexts": [{"name": "a", "context": {"cluster": "c", "user": "u"}}],
        "clusters": [{"name": "c", "cluster": {"server": "https://127.0.0.1:1"}}],
        "users": [{"name": "u", "user": user}],
    }
    (directory / "operator.kubeconfig").write_text(yaml.safe_dump(document))
    return directory / "operators.crt"


@pytest.fixture(scope="module")
def node(containerd: Containerd, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    directory = tmp_path_factory.mktemp("answers")
    agent = NodeAgent(directory, containerd.endpoint)
    for pod in (
        simple_pod("well", "for i in 1 2 3; do echo line $i; done; exec sleep 1000000"),
        simple_pod("talker", "i=0; while true; do echo talk $i; i=$((i+1)); sleep 0.2; done"),
        simple_pod("missing", container={"image": "registry.invalid/none:1"}),
        simple_pod("ending", "echo it broke; exit 3"),
        simple_pod("mountless", volumes=[{"name": "v", "hostPath": {"path": "/nowhere/at/all", "type": "Directory"}}],
                   container={"volumeMounts": [{"name": "v", "mountPath": "/v"}]}),
        simple_pod("unready", container={"readinessProbe": {"exec": {"command": ["false"]}, "periodSeconds": 1}}),
    ):  # fmt: skip
        agent.write_pod(pod)
    try:
        client_ca = write_credentials(directory)
        x509 = {"x509": {"clientCAFile": str(client_ca)}, "webhook": {"enabled": False}}
        agent.start(authentication=x509, authorization={"mode": "AlwaysAllow"})
        yield Node(agent)
    finally:
        agent.stop()
        containerd.remove_pods()


@pytest.mark.parametrize(
    ("name", "stage", "reasons", "cause"),
    [
        ("missing", "pull", {"ErrImagePull", "ImagePullBackOff"}, "registry.invalid/none:1"),
        ("ending", "start", {"CrashLoopBackOff"}, "exit code 3"),
        ("mountless", "volumes", {"FailedMount"}, "/nowhere/at/all"),
        ("unready", "ready", {"Unhealthy"}, "Readiness probe failed"),
    ],
)
def test_blocked_stage_is_explained_with_its_cause(
    node: Node, name: str, stage: str, reasons: set[str], cause: str
) -> None:
    found = wait_until(lambda: (got := node.why(name)).get("reason") in reasons and got, f"{name} is blocked", 20, 0.5)

    assert (found["blocking"], found["blocked"], found["ready"]) == (stage, True, False)
    assert cause in found["cause"]
    assert found["remedy"]
    assert found["events"]
    assert found["stages"][0]["state"] == "done"


def test_ready_pod_is_reported_as_ready(node: Node) -> None:
    wait_until(lambda: node.why("well").get("ready"), "the pod is Ready", 20, 0.5)

    done = node.run("why", "pod/default/well-node-1", "--root-dir", str(node.agent.root))

    assert done.returncode == 0
    assert "pod default/well-node-1 is Ready" in done.stdout
    assert " + ready    done" in done.stdout


def test_missing_pod_and_missing_agent_are_reported(node: Node, tmp_path) -> None:
    unknown = node.run("why", "pod/default/nobody", "--root-dir", str(node.agent.root))
    nowhere = node.run("why", "pod/default/well", "--root-dir", str(tmp_path))

    assert (unknown.returncode, nowhere.returncode) == (1, 3)
    assert 'pod "default/nobody" not found on this node' in unknown.stderr
    assert "start it, or specify its directory with --root-dir" in nowhere.stderr


def test_status_reports_pods_gauges_and_loops(node: Node) -> None:
    wait_until(lambda: node.query("status")["ready"], "the node is Ready", 20, 0.5)
    found = node.query("status")

    pods = {pod["name"].removesuffix("-node-1"): pod for pod in found["pods"]}
    assert pods["well"]["containersReady"] == 1
    assert pods["mountless"]["stage"] == "volumes"
    assert {gauge["name"] for gauge in found["gauges"]} >= {"memory", "nodefs"}
    assert "containerd" in found["runtime"]
    assert {"local queries", "node status", "pleg"} <= {loop["name"] for loop in found["loops"]}
    piped = node.run("status", "--root-dir", str(node.agent.root))
    assert piped.returncode == 1
    assert "\x1b" not in piped.stdout


def test_watch_redraws_the_terminal_until_interrupted(node: Node) -> None:
    command = [sys.executable, "-m", "nodeagent", "status", "--watch", "--interval", "0.3"]
    master, slave = pty.openpty()
    environment = os.environ | {"TERM": "xterm", "COLUMNS": "80", "LINES": "24"}
    process = subprocess.Popen(
        [*command, "--root-dir", str(node.agent.root)], stdin=slave, stdout=slave, stderr=slave, env=environment
    )
    os.close(slave)
    try:
        seen, limit = b"", time.monotonic() + 20
        while seen.count(b"node-1") < 2 and time.monotonic() < limit:
            if select.select([master], [], [], 0.5)[0]:
                seen += os.read(master, 65536)
        process.send_signal(signal.SIGINT)
        assert seen.startswith(b"\x1b[?1049h")  # the alternate screen, which preserves the shell's
        assert seen.count(b"node-1") >= 2
        assert process.wait(20) == 1
    finally:
        process.kill()
        process.wait()
        os.close(master)


def test_doctor_checks_the_real_host(node: Node, tmp_path) -> None:
    flags = ("--config", str(node.agent.directory / "config.yaml"), "--root-dir", str(node.agent.root), "-o", "json")
    (node.agent.directory / "config.yaml").chmod(0o640)

    done = node.run("doctor", *flags, "--cert-dir", str(node.agent.directory / "pki"))

    found = {each["check"]: each for each in json.loads(done.stdout)}
    assert done.returncode == 1
    assert found["runtime"] == {"check": "runtime", "known": True, "findings": []}
    assert all(check["known"] for check in found.values())
    assert "has mode 0640" in found["file modes"]["findings"][0]["text"]
    assert found["cgroup driver"]["findings"] == found["certificates"]["findings"] == []


def test_doctor_reports_the_cgroup_driver_of_the_runtime(node: Node) -> None:
    config = (node.agent.directory / "config.yaml").read_text()
    other = node.agent.directory / "other.yaml"
    other.write_text(config + "cgroupDriver: systemd\n")

    done = node.run("doctor", "--config", str(other), "--root-dir", str(node.agent.root), "-o", "json")

    found = {each["check"]: each for each in json.loads(done.stdout)}
    assert "driver systemd, the runtime cgroupfs" in found["cgroup driver"]["findings"][0]["text"]


def test_container_logs_are_printed(node: Node) -> None:
    wait_until(lambda: node.why("well").get("ready"), "the pod is Ready", 20, 0.5)

    complete = node.logs("well-node-1")
    tail = node.logs("pod/default/well-node-1", "-c", "main", "--tail", "1", "--timestamps")
    previous = wait_until(
        lambda: (done := node.logs("--previous", "ending-node-1")).returncode == 0 and done,
        "the container has restarted",
        40,
        0.5,
    )

    assert (complete.returncode, complete.stdout) == (0, "line 1\nline 2\nline 3\n")
    assert tail.stdout.startswith("20") and tail.stdout.endswith(" line 3\n") and tail.stdout.count("\n") == 1
    assert previous.stdout == "it broke\n"


def test_followed_logs_of_several_pods_are_labeled(node: Node) -> None:
    command = [sys.executable, "-m", "nodeagent", "logs", *node.log_flags(), "-f", "--since", "1h", "--tail", "1"]
    process = subprocess.Popen([*command, "talker-node-1", "well-node-1"], stdout=subprocess.PIPE, text=True)
    try:
        lines: list[str] = []
        while len(lines) < 100 and not ("[default/well-node-1 main] line 3\n" in lines and len(lines) >= 4):
            lines.append(process.stdout.readline())
        process.send_signal(signal.SIGINT)
        assert process.wait(20) == 130
    finally:
        process.kill()
        process.wait()
        process.stdout.close()

    marks = {line.rpartition("] ")[0] for line in lines}
    assert "[default/talker-node-1 main" in marks
    assert "[default/well-node-1 main] line 3\n" in lines
    assert sum("talk" in line for line in lines) >= 3


def test_system_log_files_are_listed_and_printed(node: Node) -> None:
    listing = node.logs("--system")
    name = next(line for line in listing.stdout.splitlines() if line.endswith(".log"))

    shown = node.logs("--system", name)

    assert (listing.returncode, shown.returncode) == (0, 0)
    assert shown.stdout == Path("/var/log", name).read_text(errors="replace")


@pytest.mark.parametrize(
    ("arguments", "code", "text"),
    [
        (("nobody",), 1, 'pod "default/nobody" not found on this node'),
        (("well-node-1", "-c", "other"), 1, '"other" not found'),
        (("--system", "../etc/shadow"), 1, "404"),
        (("--system", "--query", "kubelet"), 1, "set enableSystemLogQuery"),
        (("--system", "apt/"), 1, "specify a file in it"),
        (("well-node-1", "--kubeconfig", "/no/where"), 3, "failed to load credentials"),
        (("well-node-1", "--address", "127.0.0.1:1"), 3, "failed to connect to https://127.0.0.1:1"),
        (
            ("well-node-1", "--certificate-authority", "/etc/ssl/certs/ca-certificates.crt"),
            3,
            "use --certificate-authority",
        ),
        ((), 2, "specify a pod or --system"),
        (("--query", "x"), 2, "require --system"),
        (("--system", "--previous"), 2, "cannot be used with --system"),
    ],
)
def test_failed_request_prints_the_error(node: Node, arguments: tuple[str, ...], code: int, text: str) -> None:
    done = node.logs(*arguments)

    assert (done.returncode, text in done.stderr) == (code, True), done.stderr


def test_invalid_token_is_rejected(node: Node, tmp_path) -> None:
    (tmp_path / "token").write_text("guessed")
    without = node.run("logs", *node.log_flags(), "--token-file", str(tmp_path / "token"), "well-node-1")

    assert without.returncode == 1
    assert "(401)" in without.stderr

"""What an operator asks a real node: why a pod does not serve, how the node does, what was logged."""

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

import pytest

from tests.integration.containerd import Containerd
from tests.integration.programs import NodeAgent, simple_pod, wait_until


class Node:
    """A node with pods of which some go wrong."""

    def __init__(self, agent: NodeAgent) -> None:
        self.agent = agent

    def run(self, *arguments: str, **options) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "nodeagent", *arguments]
        return subprocess.run(command, check=False, capture_output=True, text=True, timeout=60, **options)

    def ask(self, *arguments: str):
        done = self.run(*arguments, "--root-dir", str(self.agent.root), "-o", "json")
        return json.loads(done.stdout) if done.stdout else {"error": done.stderr}

    def why(self, name: str):
        return self.ask("why", f"pod/default/{name}-node-1")


@pytest.fixture(scope="module")
def node(containerd: Containerd, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    agent = NodeAgent(tmp_path_factory.mktemp("answers"), containerd.endpoint)
    for pod in (
        simple_pod("well"),
        simple_pod("missing", container={"image": "registry.invalid/none:1"}),
        simple_pod("ending", "echo it broke; exit 3"),
        simple_pod("mountless", volumes=[{"name": "v", "hostPath": {"path": "/nowhere/at/all", "type": "Directory"}}],
                   container={"volumeMounts": [{"name": "v", "mountPath": "/v"}]}),
        simple_pod("unready", container={"readinessProbe": {"exec": {"command": ["false"]}, "periodSeconds": 1}}),
    ):  # fmt: skip
        agent.write_pod(pod)
    try:
        agent.start()
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
def test_each_stage_tells_its_cause(node: Node, name: str, stage: str, reasons: set[str], cause: str) -> None:
    found = wait_until(lambda: (got := node.why(name)).get("reason") in reasons and got, f"{name} is held up", 20, 0.5)

    assert (found["blocking"], found["blocked"], found["ready"]) == (stage, True, False)
    assert cause in found["cause"]
    assert found["remedy"]
    assert found["events"]
    assert found["stages"][0]["state"] == "done"


def test_a_pod_that_serves_is_told_as_such(node: Node) -> None:
    wait_until(lambda: node.why("well").get("ready"), "the pod serves", 20, 0.5)

    done = node.run("why", "pod/default/well-node-1", "--root-dir", str(node.agent.root))

    assert done.returncode == 0
    assert "pod default/well-node-1 serves" in done.stdout
    assert " + ready    done" in done.stdout


def test_a_pod_that_is_not_there_and_an_agent_that_is_not_are_told(node: Node, tmp_path) -> None:
    unknown = node.run("why", "pod/default/nobody", "--root-dir", str(node.agent.root))
    nowhere = node.run("why", "pod/default/well", "--root-dir", str(tmp_path))

    assert (unknown.returncode, nowhere.returncode) == (1, 3)
    assert "no source wants the pod" in unknown.stderr
    assert "start it, or name its directory with --root-dir" in nowhere.stderr


def test_the_node_is_shown_at_a_glance(node: Node) -> None:
    wait_until(lambda: node.ask("status")["ready"], "the node is Ready", 20, 0.5)
    found = node.ask("status")

    pods = {pod["name"].removesuffix("-node-1"): pod for pod in found["pods"]}
    assert pods["well"]["containersReady"] == 1
    assert pods["mountless"]["stage"] == "volumes"
    assert {gauge["name"] for gauge in found["gauges"]} >= {"memory", "nodefs"}
    assert "containerd" in found["runtime"]
    assert {"local questions", "node status", "pleg"} <= {loop["name"] for loop in found["loops"]}
    piped = node.run("status", "--root-dir", str(node.agent.root))
    assert piped.returncode == 1
    assert "\x1b" not in piped.stdout


def test_a_terminal_is_redrawn_until_it_is_interrupted(node: Node) -> None:
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
        assert seen.startswith(b"\x1b[?1049h")  # a screen of its own, so that the shell's stays as it was
        assert seen.count(b"node-1") >= 2
        assert process.wait(20) == 1
    finally:
        process.kill()
        process.wait()
        os.close(master)


def test_the_doctor_judges_the_real_machine(node: Node, tmp_path) -> None:
    flags = ("--config", str(node.agent.directory / "config.yaml"), "--root-dir", str(node.agent.root), "-o", "json")
    (node.agent.directory / "config.yaml").chmod(0o640)

    done = node.run("doctor", *flags, "--cert-dir", str(node.agent.directory / "pki"))

    found = {each["check"]: each for each in json.loads(done.stdout)}
    assert done.returncode == 1
    assert found["runtime"] == {"check": "runtime", "known": True, "findings": []}
    assert all(check["known"] for check in found.values())
    assert "has mode 0640" in found["file modes"]["findings"][0]["text"]
    assert found["cgroup driver"]["findings"] == found["certificates"]["findings"] == []


def test_the_doctor_sees_what_a_runtime_tells_of_its_cgroups(node: Node) -> None:
    config = (node.agent.directory / "config.yaml").read_text()
    other = node.agent.directory / "other.yaml"
    other.write_text(config + "cgroupDriver: systemd\n")

    done = node.run("doctor", "--config", str(other), "--root-dir", str(node.agent.root), "-o", "json")

    found = {each["check"]: each for each in json.loads(done.stdout)}
    assert "with systemd, the runtime with cgroupfs" in found["cgroup driver"]["findings"][0]["text"]

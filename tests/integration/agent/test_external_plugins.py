"""Tests for out-of-process plugins of a real agent: capabilities, failures, restarts, privileges and limits."""

from __future__ import annotations

import contextlib
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.integration.agent.conftest import Node
from tests.integration.agent.plugin_node import PLUGIN, entry, pod, running
from tests.integration.containerd import Containerd
from tests.integration.programs import simple_pod, wait_until

SCRIPT = (
    'id; grep -E "NoNewPrivs|Groups" /proc/self/status; ls -l /proc/self/fd; cat /proc/self/cgroup; exec sleep 1000'
)


def plugins(node: Node) -> dict[str, Any]:
    """Return the report about plugins by name."""
    command = [sys.executable, "-m", "nodeagent", "plugins", "list", "-o", "json", "--root-dir", str(node.agent.root)]
    done = subprocess.run(command, capture_output=True, check=False, timeout=60)
    return {plugin["name"]: plugin for plugin in json.loads(done.stdout)["plugins"]}


def started(node: Node, name: str) -> list[int]:
    """Return the process IDs of a plugin, in order of start."""
    pattern = rf'"Started out-of-process plugin" plugin="{name}" pid=(\d+)'
    return [int(pid) for pid in re.findall(pattern, node.agent.log.read_text())]


def registrations(node: Node, name: str) -> int:
    """Return how often a plugin has registered."""
    return node.agent.log.read_text().count(f'"Registered out-of-process plugin" plugin="{name}"')


def exists(pid: int) -> bool:
    """Return whether a process runs."""
    with contextlib.suppress(OSError):
        return "Z" not in Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    return False


@pytest.fixture(scope="module")
def node(containerd, tmp_path_factory):
    directory = tmp_path_factory.mktemp("oop")
    capabilities = ("admission", "container_mutation", "notifications", "node_report", "node_checks", "volumes")
    entries = {
        "shelf": entry(directory, *capabilities, "pod_source", volumeDrivers=["shelf.example/books"]),
        "sandboxed": {
            "command": ["/bin/sh", "-c", SCRIPT],
            "capabilities": ["eviction"],
            "startSeconds": 300,
            "limits": {"memory": "64Mi", "cpu": "500m", "pids": 16},
        },
    }
    closed = directory / "closed"
    closed.mkdir(mode=0o700)
    (closed / "plugin").write_text("#!/bin/sh\n")
    (closed / "plugin").chmod(0o755)
    entries["closed"] = {"command": [str(closed / "plugin")], "capabilities": ["eviction"]}
    with running(containerd, directory, entries, quarantine={"failures": 0}) as node:
        wait_until(lambda: registrations(node, "shelf"), "the plugin is registered")
        yield node


def test_admission_decisions_are_effective(node: Node) -> None:
    node.api.create_pod(pod("rejected", "reject"))
    node.api.create_pod(pod("waiting", "wait"))

    rejected = node.phase("rejected", "Failed")

    assert plugins(node)["shelf"]["version"] == "1.0"

    assert rejected["status"]["reason"] == "NotToday"
    assert rejected["status"]["message"] == "Pod was rejected: try another node"
    wait_until(lambda: "AdmissionDelayed" in node.reasons("waiting"), "the event of the delay")
    (node.agent.directory / "go").touch()
    node.phase("waiting", "Running")
    node.remove("rejected", "waiting")


@pytest.mark.parametrize("behavior", ["crash", "hang", "invalid", "flood"])
def test_other_pods_run_while_a_plugin_fails_and_it_is_named(node: Node, behavior: str) -> None:
    before, starts = registrations(node, "shelf"), len(started(node, "shelf"))
    node.api.create_pod(pod(behavior, behavior))
    if behavior == "crash":
        wait_until(lambda: len(started(node, "shelf")) > starts, "the plugin is restarted")
        wait_until(lambda: "AdmissionDelayed" in node.reasons(behavior), "the pod waits")
        assert "was lost" in plugins(node)["shelf"]["lastError"] or "exited with" in plugins(node)["shelf"]["lastError"]
        node.api.delete_pod(behavior, grace=0)
        node.gone(behavior)
        wait_until(lambda: registrations(node, "shelf") > before, "the plugin is registered again")
    elif behavior == "invalid":
        assert node.phase(behavior, "Failed")["status"]["reason"] == "UnexpectedAdmissionError"
        wait_until(lambda: "returned decision 99" in plugins(node)["shelf"]["lastError"], "the error")
    elif behavior == "flood":
        node.phase(behavior, "Running")
        assert node.agent.log.read_text().count("xxxxxxxx" * 25) <= 700
    node.api.create_pod(pod(f"beside-{behavior}"))
    node.phase(f"beside-{behavior}", "Running")
    if behavior == "hang":
        wait_until(lambda: "exceeded its deadline" in plugins(node)["shelf"]["lastError"], "the error")
        assert node.api.pod("hang")["status"]["phase"] == "Pending"
    assert node.agent.alive()
    for name in (behavior, f"beside-{behavior}"):
        if node.api.pod(name):
            node.remove(name)


def test_container_has_changes_volume_and_events_of_the_plugin(node: Node) -> None:
    volume = {"name": "books", "flexVolume": {"driver": "shelf.example/books"}}
    mount = {"volumeMounts": [{"name": "books", "mountPath": "/books"}]}
    command = "echo $SHELF; cat /books/book; exec sleep 1000"
    node.api.create_pod(pod("reader", command=command, container=mount, volumes=[volume]))

    reader = node.phase("reader", "Running")

    wait_until(lambda: "once upon a time" in node.log(reader), "the content of the volume")
    assert "busybox" in node.log(reader).splitlines()[0]
    node.remove("reader")
    for event in ("pod_admitted", "pod_status_changed", "container_started", "container_stopped", "pod_terminated"):
        line = f'"Output of plugin" plugin="shelf" line="event {event} reader"'
        wait_until(lambda text=line: text in node.agent.log.read_text(), line)


def test_node_has_the_metadata_and_resources_of_the_plugin(node: Node) -> None:
    def reported() -> Any:
        found = node.api.get("/api/v1/nodes/node-1")
        conditions = {each["type"]: each["status"] for each in found["status"]["conditions"]}
        return (
            found if conditions.get("Hot") == "True" and found["metadata"]["labels"].get("plugin.test/rack") else None
        )

    found = wait_until(reported, "the condition and the label")

    assert found["status"]["allocatable"]["plugin.test/shelf"] == "2"
    assert [(each["key"], each["effect"]) for each in found["spec"].get("taints", ())] == [
        ("plugin.test/hot", "PreferNoSchedule")
    ]


def test_doctor_has_the_findings_of_the_plugin(node: Node) -> None:
    files = [f"--config={node.agent.directory / 'config.yaml'}", f"--plugin-config={node.agent.directory}/plugins.yaml"]
    command = [sys.executable, "-m", "nodeagent", "doctor", *files, "--root-dir", str(node.agent.root), "-o", "json"]
    done = subprocess.run(command, capture_output=True, check=False, timeout=60)

    checks = {check["check"]: check["findings"] for check in json.loads(done.stdout)}
    assert checks["shelf"] == [{"severity": "warning", "text": "the shelf is full", "remedy": "buy another one"}]


def test_pods_of_the_plugin_run(node: Node) -> None:
    file = node.agent.directory / "pods.json"
    made = simple_pod("made")
    file.with_suffix(".tmp").write_text(json.dumps([made]))
    file.with_suffix(".tmp").rename(file)
    node.phase("made-node-1", "Running")

    file.with_suffix(".tmp").write_text("[]")
    file.with_suffix(".tmp").rename(file)

    node.gone("made-node-1")


def _limit(text: str, controller: str) -> int:
    """Return a limit of the cgroup in *text*, the content of ``/proc/self/cgroup``; CPU time per 100 ms."""
    unified = re.search(r"^0::(/.+)$", text, re.MULTILINE)
    root = Path("/sys/fs/cgroup")
    if unified and (root / "cgroup.controllers").exists():
        file = (
            root / unified[1].lstrip("/") / {"memory": "memory.max", "cpu": "cpu.max", "pids": "pids.max"}[controller]
        )
    else:
        path = re.search(rf"^\d+:(?:\S+,)?{controller}(?:,\S+)?:/(.+)$", text, re.MULTILINE)[1]
        names = {"memory": "memory.limit_in_bytes", "cpu": "cpu.cfs_quota_us", "pids": "pids.max"}
        file = root / controller / path / names[controller]
    return int(file.read_text().split()[0])


def test_executable_has_a_dedicated_user_no_privileges_and_a_cgroup(node: Node) -> None:
    def output() -> str:
        lines = re.findall(r'"Output of plugin" plugin="sandboxed" line="(.*)"', node.agent.log.read_text())
        return "\n".join(lines) if any("pids" in line or line.startswith("0::") for line in lines) else ""

    text = wait_until(output, "the output of the executable")
    uid, groups = re.search(r"uid=(\d+).*groups=(\S+)", text).groups()
    assert 60600 <= int(uid) < 61000
    assert groups == uid
    assert re.search(r"NoNewPrivs:\\t1", text)
    assert len(re.findall(r" -> ", text)) == 4  # Standard streams, and the directory that ls reads.
    assert "/nodeagent_plugins/sandboxed" in text
    assert {name: _limit(text, name) for name in ("memory", "cpu", "pids")} == {
        "memory": 64 << 20,
        "cpu": 50000,
        "pids": 16,
    }
    directory = node.agent.directory / "s" / "sandboxed"
    assert (directory.stat().st_mode & 0o777, directory.stat().st_uid) == (0o700, int(uid))


def test_directory_that_the_user_of_the_executable_cannot_access_is_named(node: Node) -> None:
    error = wait_until(lambda: plugins(node)["closed"]["lastError"], "the error")

    assert error.startswith("plugin closed: exited with code 127; last output: failed to start")
    assert re.search(
        r"Permission denied: user \d+ cannot access directory /.*, which contains /.*/closed/plugin$", error
    )


def test_children_of_a_killed_plugin_are_killed_and_it_is_restarted(node: Node) -> None:
    first = wait_until(lambda: started(node, "sandboxed"), "the start")[-1]
    os.kill(first, 9)

    second = wait_until(lambda: [pid for pid in started(node, "sandboxed") if pid != first], "the restart")[-1]

    assert not exists(first)
    assert exists(second)
    wait_until(lambda: "was killed by SIGKILL" in plugins(node)["sandboxed"]["lastError"], "the reason")


def test_plugin_is_restarted_disabled_and_enabled_by_commands(node: Node) -> None:
    def change(action: str) -> None:
        command = [sys.executable, "-m", "nodeagent", "plugins", action, "sandboxed", "--root-dir"]
        subprocess.run([*command, str(node.agent.root)], check=True, timeout=60, capture_output=True)

    before = started(node, "sandboxed")
    first = before[-1]
    change("reload")
    second = wait_until(lambda: started(node, "sandboxed")[len(before) :], "the restart")[-1]
    assert not exists(first)

    change("disable")
    assert not exists(second)
    assert plugins(node)["sandboxed"]["state"] == "disabled"

    count = len(started(node, "sandboxed"))
    change("enable")
    wait_until(lambda: len(started(node, "sandboxed")) > count, "the start")


def test_plugins_end_with_the_agent_and_no_pod_restarts(node: Node) -> None:
    node.api.create_pod(pod("stable"))
    before = node.phase("stable", "Running")["status"]["containerStatuses"][0]["containerID"]
    for stop in (node.agent.kill, node.agent.stop):
        pids = [started(node, name)[-1] for name in ("shelf", "sandboxed")]
        assert all(map(exists, pids))
        stop()
        wait_until(lambda ids=pids: not any(map(exists, ids)), "the processes have exited")
        count = registrations(node, "shelf")
        node.agent.start()
        wait_until(lambda seen=count: registrations(node, "shelf") > seen, "the plugin is registered")
    after = node.phase("stable", "Running")["status"]["containerStatuses"][0]
    assert (after["containerID"], after["restartCount"]) == (before, 0)
    node.remove("stable")


def test_socket_is_reconnected_and_required_plugin_delays_pods(containerd: Containerd, tmp_path: Path) -> None:
    socket = tmp_path / "shelf.sock"
    external = {"socket": str(socket), "capabilities": ["admission"]}
    environment = {
        **os.environ,
        **entry(tmp_path)["env"],
        "NODEAGENT_PLUGIN_NAME": "shelf",
        "NODEAGENT_PLUGIN_SOCKET": str(socket),
    }
    policy = {"failures": 2, "retrySeconds": 1, "maxRetrySeconds": 1}
    with running(containerd, tmp_path, {"shelf": external}, requiredPlugins=["shelf"], quarantine=policy) as node:
        node.api.create_pod(pod("early"))
        wait_until(lambda: "AdmissionDelayed" in node.reasons("early"), "the pod waits")
        assert plugins(node)["shelf"]["required"]
        assert node.api.pod("early")["status"].get("phase", "Pending") == "Pending"
        for number in (1, 2):
            with subprocess.Popen(PLUGIN, env=environment) as served:
                try:
                    wait_until(lambda count=number: registrations(node, "shelf") >= count, "the plugin is registered")
                    node.phase("early", "Running")
                finally:
                    served.kill()
        wait_until(lambda: plugins(node)["shelf"]["state"] in ("failing", "quarantined"), "the lost connection")


def test_invalid_settings_are_reported_with_their_paths(tmp_path: Path) -> None:
    settings = tmp_path / "plugins.yaml"
    wrong = {"command": ["shelf"], "capabilities": ["admission"], "limits": {"cpu": "1m"}}
    settings.write_text(json.dumps({"plugins": {"external_plugins": {"plugins": {"shelf": wrong, "cri": wrong}}}}))
    files = ["--config", str(tmp_path / "config.yaml"), "--plugin-config", str(settings), "--root-dir", str(tmp_path)]
    (tmp_path / "config.yaml").write_text(
        "{apiVersion: nodeagent.config.k8s.io/v1beta1, kind: NodeAgentConfiguration, "
        "containerRuntimeEndpoint: unix:///run/none.sock}"
    )
    command = [sys.executable, "-m", "nodeagent", "run", *files]

    done = subprocess.run(command, capture_output=True, check=False, timeout=60, text=True)

    assert done.returncode == 2
    path = f"{settings}: plugins.external_plugins.plugins"
    for line in (
        f"{path}.shelf.command[0]: 'shelf' must be an absolute path",
        f"{path}.shelf.limits.cpu: '1m' must be a quantity of at least 10m",
        f"{path}.cri: has the name of another plugin, cri",
    ):
        assert line in done.stderr

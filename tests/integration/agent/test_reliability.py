"""Tests for failures of the agent and its dependencies: pods keep running."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from tests.integration.agent.conftest import Node
from tests.integration.programs import NodeAgent, simple_pod, wait_until
from tests.integration.reference import new_api_server

CNI_RESULTS = Path("/var/lib/cni/results")
STAY = "trap 'exit 0' TERM; while true; do sleep 0.2; done"


def running(node: Node) -> dict[str, str]:
    """Return the IDs of running containers in the API by pod name."""
    pods = node.api.get("/api/v1/namespaces/default/pods")["items"]
    shown = {pod["metadata"]["name"]: (pod.get("status", {}).get("containerStatuses") or [{}])[0] for pod in pods}
    return {name: status["containerID"] for name, status in shown.items() if "running" in status.get("state", {})}


def container_id(pod: Any) -> str:
    """Return the ID of the first container."""
    return str(pod["status"]["containerStatuses"][0]["containerID"])


def test_static_pod_stays_started_and_ready_when_the_agent_restarts(own: Node) -> None:
    probe = {"exec": {"command": ["true"]}, "periodSeconds": 5}
    container = {"startupProbe": probe, "readinessProbe": probe}
    own.agent.write_pod(simple_pod("static", STAY, container=container))
    own.until("static-node-1", lambda p: (p["status"].get("containerStatuses") or [{}])[0].get("ready"), "it is ready")

    own.agent.kill()
    own.agent.begin()
    own.api.create_pod(simple_pod("later", STAY, nodeName="node-1"))

    def unchanged_until_later_pod_runs() -> bool:
        status = own.api.pod("static-node-1")["status"]["containerStatuses"][0]
        assert (status["started"], status["ready"], status["restartCount"]) == (True, True, 0)
        return own.api.pod("later")["status"].get("phase") == "Running"

    wait_until(unchanged_until_later_pod_runs, "the restarted agent starts a pod", 60)


@pytest.mark.timeout(240)
def test_killed_agent_causes_no_restarts_and_leaves_no_files(own: Node) -> None:
    chance = random.Random(7)
    names = [f"pod-{index}" for index in range(20)]
    for name in names:
        own.api.create_pod(simple_pod(name, STAY, nodeName="node-1"))
    seen: dict[str, str] = {}

    def kill_and_restart() -> None:
        time.sleep(chance.uniform(0.1, 1.2))
        own.agent.kill()
        seen.update(running(own))
        own.agent.begin()

    for _ in range(10):  # While pods start, and while they run.
        kill_and_restart()
    try:
        wait_until(lambda: set(running(own)) == set(names), "every pod runs", 60)
    except AssertionError as error:
        stuck = [own.api.pod(name)["status"] for name in set(names) - set(running(own))]
        raise AssertionError(f"{error}\n{stuck}\n{own.agent.tail(100)}") from None
    now = running(own)
    assert {name: now[name] for name in seen} == seen, "a container was restarted because of the agent"
    pods = own.api.get("/api/v1/namespaces/default/pods")["items"]
    before = [status["lastState"] for pod in pods for status in pod["status"]["containerStatuses"]]
    ended = [state for state in before if state and state["terminated"]["reason"] != "StartError"]
    assert not ended, f"{ended}\n{own.agent.tail(400)}"

    for name in names:
        own.api.delete_pod(name)
    for _ in range(10):  # While they terminate.
        kill_and_restart()

    wait_until(lambda: own.api.get("/api/v1/namespaces/default/pods")["items"] == [], "every pod is gone", 60)

    def nothing_left() -> bool:
        return own.runtime.ctr("containers", "ls", "-q") == ""

    try:
        wait_until(nothing_left, "no container is left", 30)
    except AssertionError:  # Containerd removes a task of an interrupted start only when it restarts.
        own.runtime.restart()
        wait_until(nothing_left, "no container is left after a restart of the runtime", 30)
    wait_until(lambda: list((own.agent.root / "pods").iterdir()) == [], "no directory is left", 30)


@pytest.mark.timeout(180)
def test_pod_whose_network_state_was_torn_ends_and_frees_its_address(own: Node) -> None:
    addresses = own.runtime.addresses
    own.agent.plugins = {"cni_state": {"address_dir": str(addresses)}}
    own.api.create_pod(simple_pod("web", STAY, nodeName="node-1"))
    pod = own.phase("web", "Running")
    own.agent.kill()
    [address] = addresses.glob(f"*/{pod['status']['podIP']}")
    [result] = CNI_RESULTS.glob(f"*-{address.read_text().split()[0]}-eth0")
    for file in (result, address):  # As a loss of power leaves them.
        os.truncate(file, 0)
    own.api.delete_pod("web")

    own.agent.begin()

    own.gone("web", 90)
    wait_until(lambda: not address.exists(), "the address is free", 60)
    assert not result.exists()
    removed = [line for line in own.agent.log.read_text().splitlines() if "Removed torn CNI file" in line]
    assert any(str(address) in line for line in removed), removed


@pytest.mark.timeout(180)
def test_runtime_outage_is_reported_and_recovers(own: Node) -> None:
    own.api.create_pod(simple_pod("web", STAY, nodeName="node-1"))
    before = own.phase("web", "Running")

    own.runtime.stop(signal.SIGKILL)

    def not_ready() -> bool:
        conditions = own.api.get("/api/v1/nodes/node-1")["status"]["conditions"]
        ready = next(c for c in conditions if c["type"] == "Ready")
        return ready["status"] == "False" and "runtime" in ready["message"]

    wait_until(not_ready, "the node says what is wrong", 60)
    own.api.create_pod(simple_pod("later", STAY, nodeName="node-1"))
    own.runtime.start()

    own.phase("later", "Running", 60)
    after = own.api.pod("web")
    assert (
        after["status"]["containerStatuses"][0]["containerID"]
        == before["status"]["containerStatuses"][0]["containerID"]
    )
    assert own.agent.alive()


@pytest.mark.timeout(180)
def test_pods_keep_running_without_the_api_server(own: Node) -> None:
    own.api.create_pod(simple_pod("web", STAY, nodeName="node-1"))
    own.api.create_pod(simple_pod("crash", "sleep 3; exit 1", nodeName="node-1"))
    before = own.phase("web", "Running")
    own.phase("crash", "Running")

    own.api.kill()
    own.agent.write_pod(simple_pod("static", STAY))
    pod_logs = own.agent.logs / "pods"
    wait_until(lambda: list(pod_logs.glob("default_static-*/main/0.log")), "the static pod runs")
    wait_until(lambda: list(pod_logs.glob("default_crash_*/main/1.log")), "the crashed container is restarted", 60)
    own.api.start()

    own.phase("static-node-1", "Running", 60)
    own.until("crash", lambda p: p["status"]["containerStatuses"][0]["restartCount"] >= 1, "restarts are caught up", 60)
    after = own.api.pod("web")
    assert after["status"]["containerStatuses"][0] == before["status"]["containerStatuses"][0]
    wait_until(lambda: "Started" in own.reasons("crash"), "events are caught up", 60)


@pytest.mark.timeout(120)
def test_invalid_manifests_are_reported_and_affect_no_other_pod(own: Node) -> None:
    own.agent.write_pod(simple_pod("good", STAY))
    own.phase("good-node-1", "Running")
    directory = own.agent.manifests
    bomb = "a: &a [x,x,x,x,x,x,x,x,x]\n" + "".join(
        f"{chr(98 + i)}: &{chr(98 + i)} [{','.join(['*' + chr(97 + i)] * 9)}]\n" for i in range(9)
    )
    (directory / "garbage.yaml").write_text("{{{ not yaml")
    (directory / "binary.yaml").write_bytes(bytes(range(256)) * 64)
    (directory / "bomb.yaml").write_text(bomb)
    (directory / "huge.yaml").write_text("x" * (11 * 1024 * 1024))
    (directory / "dangling.yaml").symlink_to("/nowhere/at/all")
    (directory / "loop.yaml").symlink_to(directory / "loop.yaml")
    (directory / "empty.yaml").write_text("")
    (directory / "wrong.yaml").write_text(
        "apiVersion: v1\nkind: Pod\nmetadata: {name: UPPER}\nspec: {containers: []}\n"
    )

    def named() -> bool:
        log = own.agent.log.read_text()
        return all(f"{name}.yaml" in log for name in ("garbage", "binary", "bomb", "huge", "dangling", "loop", "wrong"))

    wait_until(named, "each bad file is named", 40)
    own.agent.write_pod(simple_pod("another", STAY))
    own.phase("another-node-1", "Running")
    good = own.api.pod("good-node-1")
    assert good["status"]["containerStatuses"][0]["restartCount"] == 0
    assert own.agent.alive()
    assert own.agent.rss_mib() < 120


@pytest.mark.timeout(180)
def test_full_disk_of_the_root_directory_is_reported_and_recovers(containerd, tmp_path: Path) -> None:
    api, agent = new_api_server(tmp_path), NodeAgent(tmp_path, containerd.endpoint)
    agent.api = api
    node = Node(containerd, api, agent)
    agent.root.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4m,mode=0750", "tmpfs", str(agent.root)], check=True)
    filler = agent.root / "filler"
    try:
        api.start()
        agent.start(evictionHard={"memory.available": "1Mi"})  # The full disk evicts no pod.
        api.create_pod(simple_pod("before", STAY, nodeName="node-1"))
        before = node.phase("before", "Running")
        with filler.open("wb", buffering=0) as file, contextlib.suppress(OSError):
            while True:
                file.write(bytes(65536))
        volumes = {"volumes": [{"name": "v", "configMap": {"name": "big"}}]}
        mounts = {"container": {"volumeMounts": [{"name": "v", "mountPath": "/v"}]}}
        big = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "big"}, "data": {"a": "x" * 200000}}
        api.request("POST", "/api/v1/namespaces/default/configmaps", big)
        api.create_pod(simple_pod("during", STAY, nodeName="node-1", **volumes, **mounts))

        def recorded() -> bool:
            return any("No space left on device" in event.get("note", "") for event in api.events("during"))

        wait_until(recorded, "the full disk is named in an event", 40)
        assert agent.alive()
        filler.unlink()

        node.phase("during", "Running", 60)
        assert container_id(api.pod("before")) == container_id(before)
    finally:
        agent.kill()
        api.stop()
        containerd.remove_pods()
        subprocess.run(["umount", "-R", "-l", str(agent.root)], check=False)

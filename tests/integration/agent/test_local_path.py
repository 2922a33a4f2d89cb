"""Tests for claims of the storage class local-path: from the claim to the deleted directory."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from nodeagent.base.mounts.points import is_mount_point
from tests.integration.agent.conftest import Node
from tests.integration.containerd import Containerd
from tests.integration.programs import ApiServer, NodeAgent, simple_pod, wait_until

CLAIMS, VOLUMES = "/api/v1/namespaces/default/persistentvolumeclaims", "/api/v1/persistentvolumes"
WRITE = "cat /data/file; echo $(hostname) >> /data/file; sync; exec sleep 1000000"
MERGE = "application/merge-patch+json"


@pytest.fixture(scope="module")
def node(containerd: Containerd, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    """Node whose agent verifies the API server's client certificate and listens on loopback."""
    directory = tmp_path_factory.mktemp("storage")
    api = ApiServer(directory)
    agent = NodeAgent(directory, containerd.endpoint, api)
    agent.arguments = ["--node-ip", "127.0.0.1"]
    try:
        api.start()
        agent.start(authentication={"x509": {"clientCAFile": api.facts["clientCaFile"]}})
        yield Node(containerd, api, agent)
    finally:
        agent.stop()
        api.stop()
        containerd.remove_pods()


def claim(node: Node, name: str) -> None:
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "10Mi"}}}
    created = node.api.request("POST", CLAIMS, {"metadata": {"name": name}, "spec": spec})
    assert created["spec"]["storageClassName"] == "local-path", created


def start(node: Node, name: str, volume: dict[str, Any], **spec: Any) -> Any:
    """Create a pod that mounts *volume*, and wait until it runs."""
    mount = {"volumeMounts": [{"name": "data", "mountPath": "/data"}]}
    volumes = [{"name": "data", **volume}]
    node.api.create_pod(simple_pod(name, WRITE, volumes=volumes, container=mount, **spec))
    try:
        return node.phase(name, "Running", 60.0)
    except AssertionError as error:
        notes = [f"{event['regarding']['name']}: {event['reason']}: {event['note']}" for event in node.api.events()]
        raise AssertionError("\n".join([str(error), *notes])) from None


def of_claim(name: str) -> dict[str, Any]:
    return {"persistentVolumeClaim": {"claimName": name}}


def directory_of(node: Node, name: str) -> tuple[str, Path]:
    """Return the volume of a claim and its directory."""
    volume = node.api.get(f"{CLAIMS}/{name}")["spec"]["volumeName"]
    return volume, Path(node.api.get(f"{VOLUMES}/{volume}")["spec"]["local"]["path"])


def is_deleted(node: Node, path: str) -> bool:
    return bool(node.api.get(path).get("code") == 404)


def test_data_outlives_the_pod_and_is_deleted_with_the_claim(node: Node) -> None:
    claim(node, "data")
    start(node, "first", of_claim("data"))
    volume, directory = directory_of(node, "data")
    wait_until((directory / "file").exists, "the pod writes")
    node.api.request("DELETE", f"{CLAIMS}/data")
    assert node.api.get(f"{CLAIMS}/data")["metadata"]["deletionTimestamp"]
    assert (directory / "file").read_text() == "first\n"
    node.remove("first")
    wait_until(lambda: is_deleted(node, f"{CLAIMS}/data"), "the claim is deleted")
    wait_until(lambda: is_deleted(node, f"{VOLUMES}/{volume}"), "the volume is deleted")
    assert not directory.parent.exists()


def test_next_pod_reads_the_data_and_retain_keeps_it(node: Node) -> None:
    claim(node, "kept")
    start(node, "one", of_claim("kept"))
    volume, directory = directory_of(node, "kept")
    wait_until((directory / "file").exists, "the pod writes")
    node.remove("one")
    second = start(node, "two", of_claim("kept"))
    wait_until(lambda: node.log(second) == "one", "the second pod reads the data of the first")
    policy = {"spec": {"persistentVolumeReclaimPolicy": "Retain"}}
    node.api.request("PATCH", f"{VOLUMES}/{volume}", policy, MERGE)
    node.remove("two")
    node.api.request("DELETE", f"{CLAIMS}/kept")
    wait_until(lambda: is_deleted(node, f"{CLAIMS}/kept"), "the claim is deleted")
    wait_until(lambda: node.api.get(f"{VOLUMES}/{volume}")["status"]["phase"] == "Released", "the volume is released")
    assert (directory / "file").read_text() == "one\ntwo\n"


def test_ephemeral_volume_is_deleted_with_its_pod(node: Node) -> None:
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Mi"}}}
    start(node, "web", {"ephemeral": {"volumeClaimTemplate": {"spec": spec}}})
    volume, directory = directory_of(node, "web-data")
    assert directory.is_dir()
    node.remove("web")
    wait_until(lambda: is_deleted(node, f"{VOLUMES}/{volume}"), "the volume is deleted")
    assert not directory.parent.exists()


def test_running_pod_keeps_its_volume_when_the_agent_restarts(node: Node) -> None:
    claim(node, "live")
    pod = start(node, "db", of_claim("live"))
    _, directory = directory_of(node, "live")
    node.agent.kill()
    node.agent.start()
    mount = node.agent.root / "pods" / pod["metadata"]["uid"] / "volumes/kubernetes.io~local-volume"
    wait_until(lambda: node.api.pod("db")["status"]["containerStatuses"][0]["ready"], "the pod is Ready")
    assert [is_mount_point(path) for path in mount.iterdir()] == [True]
    assert node.api.pod("db")["status"]["containerStatuses"][0]["restartCount"] == 0
    node.remove("db")
    assert directory.is_dir()
    node.api.request("DELETE", f"{CLAIMS}/live")
    wait_until(lambda: not directory.exists(), "the directory is deleted")

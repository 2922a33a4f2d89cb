"""Tests for resource claims: a real runtime with CDI, the bundled API server, and the DRA driver as a process."""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.dra_driver import Control
from tests.integration.agent.conftest import Node
from tests.integration.containerd import LATER, Containerd
from tests.integration.programs import ApiServer, NodeAgent, Program, simple_pod, wait_until

DRIVER = "gpu.example.com"
GROUP = "/apis/resource.k8s.io/v1"
CLAIMS = f"{GROUP}/namespaces/default/resourceclaims"
PRINT = "env | grep ^DEVICE_ | sort; echo end; exec sleep 1000000"


class Driver(Program):
    """Process of the driver."""

    def __init__(self, directory: Path, agent: NodeAgent, cdi: Path) -> None:
        super().__init__("dra-driver", directory)
        self.control, self._agent, self._cdi = Control(directory / "driver"), agent, cdi

    def start(self, *options: str) -> None:
        assert self._agent.api is not None
        self.launch(
            "tests.dra_driver", "--name", DRIVER, "--root", str(self._agent.root), "--cdi", str(self._cdi),
            "--state", str(self.control.directory), "--facts", str(self._agent.api.data / "ready.json"), *options,
        )  # fmt: skip


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Node, Driver]]:
    directory = tmp_path_factory.mktemp("dra")  # The path of a socket is limited to 107 characters.
    with Containerd(executables=LATER) as containerd:
        api = ApiServer(directory)
        agent = NodeAgent(directory, containerd.endpoint, api)
        driver = Driver(directory, agent, containerd.directory / "cdi")
        try:
            api.start("--compatibility-version=1.36")
            agent.start(syncFrequency="5s", nodeStatusUpdateFrequency="1s")
            driver.start()
            publish(api)
            yield Node(containerd, api, agent), driver
        finally:
            driver.kill()
            agent.kill()
            api.stop()
            containerd.remove_pods()


def publish(api: ApiServer) -> None:
    """Create a class, a template for one device, and the slice with four devices."""
    ok(api, "POST", f"{GROUP}/deviceclasses", {"metadata": {"name": "gpu"}, "spec": {}})
    spec = {"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": "gpu"}}]}}
    template = {"metadata": {"name": "gpu"}, "spec": {"spec": spec}}
    ok(api, "POST", f"{GROUP}/namespaces/default/resourceclaimtemplates", template)
    pool = {"name": "node-1", "generation": 1, "resourceSliceCount": 1}
    devices = [{"name": f"gpu-{number}"} for number in range(4)]
    slice_spec = {"driver": DRIVER, "nodeName": "node-1", "pool": pool, "devices": devices}
    ok(api, "POST", f"{GROUP}/resourceslices", {"metadata": {"name": "node-1-gpu"}, "spec": slice_spec})


def ok(api: ApiServer, method: str, path: str, body: Any) -> Any:
    response = api.request(method, path, body)
    assert response["kind"] != "Status", response
    return response


def pod(name: str, command: str = PRINT, **claim: str) -> dict[str, Any]:
    resources = {"resources": {"claims": [{"name": "gpu"}]}}
    source = claim or {"resourceClaimTemplateName": "gpu"}
    return simple_pod(name, command, container=resources, resourceClaims=[{"name": "gpu", **source}])


def claim_of(cluster: Node, name: str) -> Any:
    found = cluster.api.pod(name)["status"]["resourceClaimStatuses"][0]["resourceClaimName"]
    return cluster.api.get(f"{CLAIMS}/{found}")


def checkpoint(cluster: Node) -> list[Any]:
    """Return the entries of the checkpoint, whose checksum is valid."""
    document = json.loads((cluster.agent.root / "dra_manager_state").read_text())
    assert document["Checksum"] == zlib.crc32(document["Data"].encode())
    entries: list[Any] = json.loads(document["Data"])["ClaimInfoStateList"]
    return entries


def output(cluster: Node, name: str) -> list[str]:
    found = cluster.phase(name, "Running")
    wait_until(lambda: "end" in cluster.log(found), "the container has printed its devices")
    return cluster.log(found).splitlines()[:-1]


def test_container_has_the_devices_of_its_claim(node: tuple[Node, Driver]) -> None:
    cluster, driver = node

    cluster.api.create_pod(pod("first"))

    assert output(cluster, "first") == ["DEVICE_gpu_0=yes"]
    claim = claim_of(cluster, "first")
    uid = claim["metadata"]["uid"]
    assert driver.control.calls() == [{"method": "NodePrepareResources", "uids": [uid]}]
    (entry,) = checkpoint(cluster)
    (device,) = entry["DriverState"][DRIVER]["Devices"]
    assert (entry["ClaimUID"], device["DeviceName"], device["RequestNames"]) == (uid, "gpu-0", ["gpu"])
    cluster.remove("first")
    assert driver.control.calls()[1:] == [{"method": "NodeUnprepareResources", "uids": [uid]}]
    assert checkpoint(cluster) == []
    wait_until(lambda: not cluster.api.get(CLAIMS)["items"], "the claim is deleted")

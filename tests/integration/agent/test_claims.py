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
        agent.plugins["claims"] = {"slice_grace_seconds": 2}
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
    publish_slice(api)


def publish_slice(api: ApiServer) -> None:
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
    driver.control.set_health({"gpu-0": "UNHEALTHY", "gpu-1": "HEALTHY"})
    health = {"resourceID": f"{DRIVER}/claim={uid}-gpu-0", "health": "Unhealthy", "message": "gpu-0 is unhealthy"}
    expected = [{"name": "claim:gpu", "resources": [health]}]
    cluster.until("first", lambda found: resources_status(found) == expected, "the health is reported")
    cluster.remove("first")
    assert driver.control.calls()[1:] == [{"method": "NodeUnprepareResources", "uids": [uid]}]
    assert checkpoint(cluster) == []
    wait_until(lambda: not cluster.api.get(CLAIMS)["items"], "the claim is deleted")


def test_shared_claim_is_unprepared_after_its_last_pod(node: tuple[Node, Driver]) -> None:
    cluster, driver = node
    spec = {"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": "gpu"}}]}}
    created = ok(cluster.api, "POST", CLAIMS, {"metadata": {"name": "shared"}, "spec": spec})
    before = len(driver.control.calls())

    for name in ("one", "two"):
        cluster.api.create_pod(pod(name, resourceClaimName="shared"))
    assert output(cluster, "one") == output(cluster, "two") == ["DEVICE_gpu_0=yes"]
    cluster.remove("one")
    assert [call["method"] for call in driver.control.calls()[before:]] == ["NodePrepareResources"]
    cluster.remove("two")

    uids = [created["metadata"]["uid"]]
    assert driver.control.calls()[before:] == [
        {"method": "NodePrepareResources", "uids": uids},
        {"method": "NodeUnprepareResources", "uids": uids},
    ]
    wait_until(lambda: "allocation" not in cluster.api.get(f"{CLAIMS}/shared")["status"], "the claim is deallocated")


def test_extended_resource_is_provided_by_a_claim(node: tuple[Node, Driver]) -> None:
    cluster, driver = node
    body = {"metadata": {"name": "extended"}, "spec": {"extendedResourceName": "example.com/gpu"}}
    ok(cluster.api, "POST", f"{GROUP}/deviceclasses", body)
    amounts = {"example.com/gpu": "2"}
    cluster.api.create_pod(simple_pod("extended", PRINT, container={"resources": {"limits": amounts}}))

    assert output(cluster, "extended") == ["DEVICE_gpu_0=yes", "DEVICE_gpu_1=yes"]
    cluster.remove("extended")
    assert driver.control.prepared() == {}


def test_finished_pod_releases_its_claim_before_its_phase_is_final(node: tuple[Node, Driver]) -> None:
    cluster, driver = node
    driver.control.set_faults({"errors": {"NodeUnprepareResources": "in use"}})
    cluster.api.create_pod(pod("job", "exit 0") | {"spec": pod("job", "exit 0")["spec"] | {"restartPolicy": "Never"}})

    wait_until(lambda: "FailedUnprepareDynamicResources" in cluster.reasons("job"), "the claim cannot be unprepared")
    cluster.phase("job", "Running")
    driver.control.set_faults({})
    cluster.phase("job", "Succeeded")

    assert driver.control.prepared() == {}
    cluster.remove("job")


def test_pod_waits_for_its_driver(node: tuple[Node, Driver]) -> None:
    cluster, driver = node
    cluster.api.create_pod(pod("running"))
    output(cluster, "running")
    driver.stop()
    wait_until(lambda: not slices(cluster), "the slices of the missing driver are deleted")
    publish_slice(cluster.api)

    cluster.api.create_pod(pod("late"))
    waiting = cluster.until("late", waiting_reason, "the pod waits")
    assert waiting_reason(waiting) == ("FailedPrepareDynamicResources", f"DRA driver {DRIVER} is not registered")
    cluster.api.delete_pod("running", grace=1)
    wait_until(lambda: "FailedUnprepareDynamicResources" in cluster.reasons("running"), "the claim is still prepared")
    assert cluster.api.pod("running") is not None
    driver.start("--services", "v1beta1.DRAPlugin")

    assert output(cluster, "late") == ["DEVICE_gpu_1=yes"]
    cluster.gone("running")
    cluster.remove("late")
    assert driver.control.prepared() == {}


def test_agent_killed_during_a_call_loses_no_claim(node: tuple[Node, Driver]) -> None:
    cluster, driver = node
    cluster.api.create_pod(pod("survivor"))
    survivor = cluster.phase("survivor", "Running")
    before = len(driver.control.calls())
    driver.control.set_faults({"hang": ["NodePrepareResources"]})
    cluster.api.create_pod(pod("killed"))
    wait_until(lambda: len(driver.control.prepared()) == 2, "the driver has prepared the second claim")
    cluster.agent.kill()
    driver.control.set_faults({})
    cluster.agent.start()

    assert output(cluster, "killed") == ["DEVICE_gpu_1=yes"]
    uid = claim_of(cluster, "killed")["metadata"]["uid"]
    call = {"method": "NodePrepareResources", "uids": [uid]}
    assert driver.control.calls()[before:] == [call, call]  # The first response was lost.
    cluster.agent.kill()
    cluster.api.delete_pod("killed", grace=0)
    cluster.agent.start()
    wait_until(lambda: uid not in driver.control.prepared(), "the claim of the deleted pod is unprepared")
    now = cluster.api.pod("survivor")["status"]["containerStatuses"][0]
    assert now["containerID"] == survivor["status"]["containerStatuses"][0]["containerID"]
    cluster.remove("survivor")
    assert driver.control.prepared() == {}
    assert checkpoint(cluster) == []


def test_health_lists_the_registration_of_device_plugins(node: tuple[Node, Driver]) -> None:
    cluster, _ = node

    status, text = cluster.agent.healthz()

    assert (status, "[+]device-plugin ok" in text) == (200, True), text


def resources_status(found: Any) -> Any:
    return found["status"]["containerStatuses"][0].get("allocatedResourcesStatus")


def waiting_reason(found: Any) -> tuple[str, str] | None:
    """Return reason and message of a waiting container that is not only being created."""
    for status in found["status"].get("containerStatuses") or ():
        waiting = status["state"].get("waiting") or {}
        if waiting.get("reason", "ContainerCreating") != "ContainerCreating":
            return waiting["reason"], waiting.get("message", "")
    return None


def slices(cluster: Node) -> list[Any]:
    items: list[Any] = cluster.api.get(f"{GROUP}/resourceslices")["items"]
    return items

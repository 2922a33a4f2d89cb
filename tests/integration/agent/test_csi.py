"""Tests for claims on volumes of a CSI driver: a real runtime, the bundled API server, and the driver as a process."""

from __future__ import annotations

import json
import shlex
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from nodeagent.base.mounts.table import read_mounts
from tests.csi_driver import BindMounts, Faults, Storage
from tests.integration.agent.conftest import Node
from tests.integration.programs import ApiServer, NodeAgent, Program, free_port, simple_pod, unmount_below, wait_until

DRIVER = "csi.test"
STORAGE_API = "/apis/storage.k8s.io/v1"
CLAIMS = "/api/v1/namespaces/default/persistentvolumeclaims"
CHECKOUT = Path(__file__).parents[3]


class Driver(Program):
    """Process of the driver, with its state on disk."""

    def __init__(self, directory: Path, registry: Path) -> None:
        super().__init__("csi", directory)
        self.state, self._registry = directory / "csi", registry
        self.storage = Storage(self.state, BindMounts())
        self.faults = Faults(self.state / "faults.json")

    def start(self) -> None:
        """Start, and wait until the driver serves."""
        before = self.log.stat().st_size if self.log.exists() else 0
        self.launch(*self.arguments)
        wait_until(lambda: "ready" in self.log.read_text()[before:], "the driver serves")

    @property
    def arguments(self) -> list[str]:
        """The arguments of ``python -m``."""
        return [
            "tests.csi_driver", "--name", DRIVER, "--directory", str(self.state), "--registry", str(self._registry),
            "--max-volumes", "7", "--topology", "topology.csi.test/zone=z1",
        ]  # fmt: skip


@pytest.fixture
def stopped(
    request: pytest.FixtureRequest, containerd: Any, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Node, Driver]]:
    """Node with a driver that has not been started; the parameter is the release."""
    directory = tmp_path_factory.mktemp("csi")  # The path of a socket is limited to 107 characters.
    api = ApiServer(directory)
    agent = NodeAgent(directory, containerd.endpoint, api)
    built = Driver(directory, agent.root / "plugins_registry")
    try:
        api.start("--allow-privileged", f"--compatibility-version={getattr(request, 'param', '1.29')}")
        agent.start(syncFrequency="5s", volumeStatsAggPeriod="1s", readOnlyPort=free_port())
        spec = {"attachRequired": False, "podInfoOnMount": True, "fsGroupPolicy": "File"}
        api.request("POST", f"{STORAGE_API}/csidrivers", {"metadata": {"name": DRIVER}, "spec": spec})
        yield Node(containerd, api, agent), built
    finally:
        agent.kill()
        built.kill()
        api.stop()
        containerd.remove_pods()
        unmount_below(agent.root)
        for image in built.state.glob("volumes/*.img"):
            BindMounts().detach(image)


@pytest.fixture
def driver(stopped: tuple[Node, Driver]) -> tuple[Node, Driver]:
    stopped[1].start()
    return stopped


def mounts_below(root: Path) -> list[str]:
    return sorted(each.path for each in read_mounts() if each.path.startswith(f"{root}/p"))


def claim(api: ApiServer, name: str, mode: str = "Filesystem", storage_class: str = "") -> None:
    """Create a volume of the driver, and a claim that is bound to it."""
    common = {"accessModes": ["ReadWriteOnce"], "volumeMode": mode, "storageClassName": storage_class}
    csi = {"driver": DRIVER, "volumeHandle": f"handle-{name}", "fsType": "ext4" if mode == "Filesystem" else None}
    source = {key: value for key, value in csi.items() if value}
    volume = {**common, "capacity": {"storage": "1Mi"}, "csi": source, "persistentVolumeReclaimPolicy": "Retain"}
    created = api.request("POST", "/api/v1/persistentvolumes", {"metadata": {"name": f"pv-{name}"}, "spec": volume})
    assert created["kind"] == "PersistentVolume", created
    requested = {**common, "resources": {"requests": {"storage": "1Mi"}}, "volumeName": f"pv-{name}"}
    body = {"metadata": {"name": name}, "spec": requested}
    assert api.request("POST", CLAIMS, body)["kind"] == "PersistentVolumeClaim"
    wait_until(lambda: api.get(f"{CLAIMS}/{name}")["status"].get("phase") == "Bound", f"claim {name} is bound")


def patch(api: ApiServer, path: str, **body: Any) -> None:
    patched = api.request("PATCH", path, body, "application/merge-patch+json")
    assert patched["kind"] != "Status", patched


def claimed_volumes(agent: NodeAgent) -> list[tuple[str, str, int]]:
    """Return pod volume, claim and capacity of the volumes in the summary that have a claim."""
    url = f"http://127.0.0.1:{agent.config['readOnlyPort']}/stats/summary"
    with urllib.request.urlopen(url) as response:
        pods = json.load(response)["pods"]
    volumes = [volume for pod in pods for volume in pod.get("volume", ())]
    return [(v["name"], v["pvcRef"]["name"], v["capacityBytes"]) for v in volumes if "pvcRef" in v]


def pod(name: str, claim_name: str, command: str, **container: Any) -> dict[str, Any]:
    volumes = [{"name": "data", "persistentVolumeClaim": {"claimName": claim_name}}]
    container = container or {"volumeMounts": [{"name": "data", "mountPath": "/data"}]}
    return simple_pod(name, command, nodeName="node-1", volumes=volumes, container=container)


def driver_pod(agent: NodeAgent, driver: Driver) -> dict[str, Any]:
    """Return a pod that runs the driver with the files of this host; its mounts propagate to the host."""
    environment = [f"PYTHONPATH={CHECKOUT}:{CHECKOUT / 'plugins'}"]
    command = ["chroot", "/host", "/usr/bin/env", *environment, sys.executable, "-m", *driver.arguments]
    mounts = [
        {"name": "host", "mountPath": "/host"},
        {"name": "root", "mountPath": f"/host{agent.root}", "mountPropagation": "Bidirectional"},
    ]
    paths = {"host": "/", "root": str(agent.root)}
    return simple_pod(
        "driver",
        f"exec {shlex.join(command)}",
        nodeName="node-1",
        volumes=[{"name": name, "hostPath": {"path": path}} for name, path in paths.items()],
        container={"volumeMounts": mounts, "securityContext": {"privileged": True}},
    )


def test_mounts_of_a_driver_in_a_pod_reach_other_pods_and_the_agent(stopped: tuple[Node, Driver]) -> None:
    node, csi = stopped
    api, agent = node.api, node.agent
    api.create_pod(driver_pod(agent, csi))
    running = node.phase("driver", "Running", 60.0)
    wait_until(lambda: node.log(running) == "ready", "the driver serves")
    script = "until grep -q /globalmount /proc/mounts; do sleep 0.1; done; echo seen; exec sleep 1000000"
    plugins = {"name": "plugins", "hostPath": {"path": str(agent.root / "plugins")}}
    mount = {"name": "plugins", "mountPath": "/plugins", "mountPropagation": "HostToContainer"}
    api.create_pod(
        simple_pod("observer", script, nodeName="node-1", volumes=[plugins], container={"volumeMounts": [mount]})
    )
    observer = node.phase("observer", "Running", 60.0)

    claim(api, "data")
    api.create_pod(pod("writer", "data", "echo kept > /data/file; sync; echo written; exec sleep 1000000"))
    writer = node.phase("writer", "Running", 60.0)
    wait_until(lambda: node.log(writer) == "written", "the pod has written")
    (volume,) = csi.state.glob("volumes/*/file")
    assert volume.read_text() == "kept\n"
    wait_until(lambda: node.log(observer) == "seen", "the other pod sees the mount")
    target = f"{agent.root}/pods/{writer['metadata']['uid']}/volumes/kubernetes.io~csi/pv-data/mount"
    assert target in mounts_below(agent.root)

    node.remove("writer")
    wait_until(lambda: not csi.storage.all_staged(), "the volume is unstaged", 60.0)
    wait_until(lambda: not mounts_below(agent.root), "no mount remains")
    assert volume.read_text() == "kept\n"


def test_data_survives_kills_of_agent_and_driver(driver: tuple[Node, Driver]) -> None:
    node, csi = driver
    api, agent = node.api, node.agent

    def entries() -> Any:
        return (api.get(f"{STORAGE_API}/csinodes/node-1").get("spec") or {}).get("drivers")

    wait_until(entries, "the driver is registered")
    entry = {
        "name": DRIVER,
        "nodeID": "node-1",
        "topologyKeys": ["topology.csi.test/zone"],
        "allocatable": {"count": 7},
    }
    assert entries() == [entry]
    meta = api.get("/api/v1/nodes/node-1")["metadata"]
    assert json.loads(meta["annotations"]["csi.volume.kubernetes.io/nodeid"]) == {DRIVER: "node-1"}
    assert meta["labels"]["topology.csi.test/zone"] == "z1"

    claim(api, "data")
    write = "echo kept > /data/file; sync; echo written; exec sleep 1000000"
    api.create_pod(pod("writer", "data", write))
    writer = node.phase("writer", "Running", 60.0)
    wait_until(lambda: node.log(writer) == "written", "the pod has written")
    stage, publish = ("NodeStageVolume", "NodePublishVolume")
    assert csi.storage.methods() == [stage, publish]
    wait_until(lambda: claimed_volumes(agent) == [("data", "data", 100)], "the driver's figures are reported")

    # Both processes are killed; the volume remains mounted, and a second pod uses it afterwards.
    csi.kill()
    agent.kill()
    before = mounts_below(agent.root)
    agent.start()
    csi.start()
    api.create_pod(pod("reader", "data", "cat /data/file; exec sleep 1000000"))
    reader = node.phase("reader", "Running", 90.0)
    wait_until(lambda: node.log(reader) == "kept", "the second pod reads the file")
    assert set(before) <= set(mounts_below(agent.root))
    assert not {"NodeUnpublishVolume", "NodeUnstageVolume"} & set(csi.storage.methods())
    assert api.pod("writer")["status"]["containerStatuses"][0]["restartCount"] == 0

    # Without the driver, a deleted pod keeps its volume, until the driver has released it.
    csi.faults.set("NodeUnpublishVolume", step="between", kill=True, count=1)
    for name in ("writer", "reader"):
        api.delete_pod(name, grace=1)
    wait_until(lambda: not csi.alive(), "the driver is killed while it unpublishes")
    assert csi.storage.all_staged() == ["handle-data"]
    csi.start()
    node.gone("writer", 90.0)
    node.gone("reader", 90.0)
    wait_until(lambda: not csi.storage.all_staged(), "the volume is unstaged", 60.0)

    assert not csi.storage.published()
    assert csi.storage.methods()[-1] == "NodeUnstageVolume"
    wait_until(lambda: not mounts_below(agent.root), "no mount remains")
    wait_until(lambda: not list(agent.root.glob("plugins/kubernetes.io/csi/*/*")), "no staging directory remains")
    (volume,) = csi.state.glob("volumes/*/file")
    assert volume.read_text() == "kept\n"


@pytest.mark.parametrize("restarts", [False, True], ids=["same process", "restarted agent"])
def test_inline_volume_is_removed_with_its_pod(driver: tuple[Node, Driver], restarts: bool) -> None:
    node, csi = driver
    agent, path = node.agent, f"{STORAGE_API}/csidrivers/{DRIVER}"
    node.api.request("DELETE", path)
    spec = {"attachRequired": False, "podInfoOnMount": True, "volumeLifecycleModes": ["Ephemeral"]}
    node.api.request("POST", f"{STORAGE_API}/csidrivers", {"metadata": {"name": DRIVER}, "spec": spec})
    volumes = [{"name": "data", "csi": {"driver": DRIVER, "volumeAttributes": {"size": "1"}}}]
    container = {"volumeMounts": [{"name": "data", "mountPath": "/data"}]}
    command = "echo kept > /data/file; cat /data/file; exec sleep 1000000"
    node.api.create_pod(simple_pod("inline", command, nodeName="node-1", volumes=volumes, container=container))
    running = node.phase("inline", "Running", 60.0)
    wait_until(lambda: node.log(running) == "kept", "the pod has written")
    if restarts:
        agent.kill()
        agent.start()

    node.remove("inline")

    assert not csi.storage.published()
    assert csi.storage.methods() == ["NodePublishVolume", "NodeUnpublishVolume"]
    assert not mounts_below(agent.root)
    assert not (agent.root / "pods" / running["metadata"]["uid"] / "volumes").exists()


def test_block_volume_is_a_device_in_the_container(driver: tuple[Node, Driver]) -> None:
    node, csi = driver
    api = node.api
    claim(api, "disk", "Block")
    devices = [{"name": "data", "devicePath": "/dev/data"}]
    command = "echo kept | dd of=/dev/data conv=fsync 2>/dev/null; echo written; exec sleep 1000000"
    api.create_pod(pod("block", "disk", command, volumeDevices=devices))
    created = node.phase("block", "Running", 90.0)
    wait_until(lambda: node.log(created) == "written", "the pod has written")
    uid = created["metadata"]["uid"]
    held = node.agent.root / "plugins/kubernetes.io/csi/volumeDevices/pv-disk/dev" / uid
    backing = [file.read_text().strip() for file in Path("/sys/block").glob("loop*/loop/backing_file")]
    assert str(held) in backing

    node.agent.kill()
    node.agent.start()
    node.remove("block")
    wait_until(lambda: not csi.storage.all_staged(), "the volume is unstaged", 60.0)

    (image,) = csi.state.glob("volumes/*.img")
    assert image.read_bytes()[:5] == b"kept\n"
    blocks = node.agent.root / "plugins/kubernetes.io/csi/volumeDevices"
    wait_until(lambda: not list(blocks.glob("*/*")), "no directory of blocks remains")
    assert str(held) not in [f.read_text().strip() for f in Path("/sys/block").glob("loop*/loop/backing_file")]


def test_volume_is_attached_before_its_use_and_detached_after_it(driver: tuple[Node, Driver]) -> None:
    node, csi = driver
    api = node.api
    api.request("DELETE", f"{STORAGE_API}/csidrivers/{DRIVER}")
    spec = {"attachRequired": True, "fsGroupPolicy": "File"}
    api.request("POST", f"{STORAGE_API}/csidrivers", {"metadata": {"name": DRIVER}, "spec": spec})
    claim(api, "data")
    api.create_pod(pod("writer", "data", "exec sleep 1000000"))

    def attachments() -> Any:
        return api.get(f"{STORAGE_API}/volumeattachments")["items"]

    def listed(field: str) -> Any:
        return api.get("/api/v1/nodes/node-1")["status"].get(field)

    (attachment,) = wait_until(attachments, "the attachment is requested")
    name = f"kubernetes.io/csi/{DRIVER}^handle-data"
    wait_until(lambda: listed("volumesInUse") == [name], "the volume is reported in use")
    assert not csi.storage.methods()
    status = {"attached": True, "attachmentMetadata": {"device": "x"}}
    patch(api, f"{STORAGE_API}/volumeattachments/{attachment['metadata']['name']}/status", status=status)
    node.phase("writer", "Running", 60.0)
    assert listed("volumesAttached") == [{"name": name, "devicePath": ""}]
    assert csi.storage.calls("NodeStageVolume")[-1]["publish_context"] == {"device": "x"}

    csi.faults.set("NodeUnstageVolume", code="INTERNAL", count=2)
    node.remove("writer")
    wait_until(lambda: not attachments(), "the volume is detached", 60.0)
    assert not csi.storage.all_staged()
    assert not listed("volumesInUse") and not listed("volumesAttached")


def test_node_requests_attachments_without_a_controller(driver: tuple[Node, Driver]) -> None:
    node, csi = driver
    api, agent = node.api, node.agent
    agent.kill()
    agent.start(enableControllerAttachDetach=False)

    def annotations() -> Any:
        return api.get("/api/v1/nodes/node-1")["metadata"].get("annotations", {})

    managed = "volumes.kubernetes.io/controller-managed-attach-detach"
    wait_until(lambda: managed not in annotations(), "the controller does not attach")
    api.request("DELETE", f"{STORAGE_API}/csidrivers/{DRIVER}")
    spec = {"attachRequired": True, "fsGroupPolicy": "File"}
    api.request("POST", f"{STORAGE_API}/csidrivers", {"metadata": {"name": DRIVER}, "spec": spec})
    claim(api, "data")
    api.create_pod(pod("writer", "data", "exec sleep 1000000"))

    def attachments() -> Any:
        return api.get(f"{STORAGE_API}/volumeattachments")["items"]

    wait_until(lambda: "FailedMount" in node.reasons("writer"), "the missing permission is reported")
    assert not attachments()
    path, name = "/apis/rbac.authorization.k8s.io/v1", "attaching-nodes"
    rules = [{"apiGroups": ["storage.k8s.io"], "resources": ["volumeattachments"],
              "verbs": ["get", "list", "create", "delete"]}]  # fmt: skip
    api.request("POST", f"{path}/clusterroles", {"metadata": {"name": name}, "rules": rules})
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name}
    nodes = [{"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": "system:nodes"}]
    binding = {"metadata": {"name": name}, "roleRef": role, "subjects": nodes}
    api.request("POST", f"{path}/clusterrolebindings", binding)
    (attachment,) = wait_until(attachments, "the attachment is requested", 60.0)
    assert attachment["spec"]["nodeName"] == "node-1" and not csi.storage.methods()
    status = {"attached": True, "attachmentMetadata": {"device": "x"}}
    patch(api, f"{STORAGE_API}/volumeattachments/{attachment['metadata']['name']}/status", status=status)
    node.phase("writer", "Running", 60.0)
    assert csi.storage.calls("NodeStageVolume")[-1]["publish_context"] == {"device": "x"}

    csi.faults.set("NodeUnstageVolume", code="INTERNAL", count=2)
    agent.kill()
    agent.start()
    node.remove("writer")
    wait_until(lambda: not attachments(), "the volume is detached", 60.0)
    assert not csi.storage.all_staged()
    assert csi.storage.methods()[-1] == "NodeUnstageVolume"


@pytest.mark.parametrize("stopped", ["1.34"], indirect=True)
def test_failed_expansion_is_repeated_and_an_infeasible_one_reduced(driver: tuple[Node, Driver]) -> None:
    node, csi = driver
    api = node.api
    storage_class = {"metadata": {"name": "growing"}, "provisioner": DRIVER, "allowVolumeExpansion": True}
    api.request("POST", f"{STORAGE_API}/storageclasses", storage_class)
    claim(api, "data", storage_class="growing")
    api.create_pod(pod("writer", "data", "exec sleep 1000000"))
    node.phase("writer", "Running", 60.0)

    def status() -> Any:
        return api.get(f"{CLAIMS}/data")["status"]

    def expand(size: str) -> None:
        """Do what the user and the controller do."""
        patch(api, f"{CLAIMS}/data", spec={"resources": {"requests": {"storage": size}}})
        allocated = {"allocatedResources": {"storage": size}}
        pending = {"allocatedResourceStatuses": {"storage": "NodeResizePending"}}
        patch(api, f"{CLAIMS}/data/status", status={**allocated, **pending})

    csi.faults.set("NodeExpandVolume", code="INTERNAL")
    expand("2Mi")
    patch(api, "/api/v1/persistentvolumes/pv-data", spec={"capacity": {"storage": "2Mi"}})
    (condition,) = wait_until(lambda: status().get("conditions"), "the failure is recorded", 60.0)
    assert (condition["type"], condition["status"]) == ("NodeResizeError", "True")
    assert "rpc error: code = Internal desc = injected fault" in condition["message"]
    assert status()["allocatedResourceStatuses"] == {"storage": "NodeResizeInProgress"}
    csi.faults.clear()
    wait_until(lambda: status()["capacity"] == {"storage": "2Mi"}, "the volume is expanded", 60.0)
    assert not status().get("conditions") and not status().get("allocatedResourceStatuses")
    assert csi.storage.size("handle-data") == 2 << 20
    assert {"VolumeResizeFailed", "FileSystemResizeSuccessful"} <= node.reasons("writer")

    csi.faults.set("NodeExpandVolume", code="OUT_OF_RANGE")
    expand("4Mi")
    patch(api, "/api/v1/persistentvolumes/pv-data", spec={"capacity": {"storage": "4Mi"}})
    infeasible = {"storage": "NodeResizeInfeasible"}
    wait_until(lambda: status().get("allocatedResourceStatuses") == infeasible, "the size is infeasible", 60.0)
    calls = len(csi.storage.calls("NodeExpandVolume"))
    csi.faults.clear()
    expand("3Mi")
    wait_until(lambda: status()["capacity"] == {"storage": "3Mi"}, "the volume has the smaller size", 60.0)
    assert csi.storage.size("handle-data") == 3 << 20
    assert len(csi.storage.calls("NodeExpandVolume")) == calls + 1
    node.remove("writer")

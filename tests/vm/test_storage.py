"""Tests of claims on a virtual machine whose services are killed, and that is reset, while pods write.

The volumes are a directory of the class ``local-path``, and a file system and a block device of a CSI driver, which
runs as a unit.
"""

from __future__ import annotations

import base64
import io
import json
import tarfile
from pathlib import Path
from typing import Any

import pytest

from tests.integration.programs import simple_pod, wait_until
from tests.vm.machine import Measures, Stopwatch, VirtualNode, main_container

pytestmark = pytest.mark.timeout(3600)

DRIVER, HOME = "csi.test", "/var/lib/csi-test"
ROOT, PYTHON = "/var/lib/kubelet", "/usr/local/lib/nodeagent/bin/python"
UNIT = f"""\
[Unit]
Description=CSI driver for tests
[Service]
WorkingDirectory={HOME}
ExecStart={PYTHON} -m tests.csi_driver --name {DRIVER} --directory {HOME}/state --registry {ROOT}/plugins_registry
Restart=always
[Install]
WantedBy=multi-user.target
"""
CLAIMS = ("local", "files", "block")
SERVICES = ("nodeagent", "nodeagent-apiserver", "containerd", "csi-test")

# Each record is on disk before its number is published in /dev/shm of the container, where no reset preserves it.
_APPEND = "n=$((n+1)); echo $n >> /data/journal; sync /data/journal; echo $n > /dev/shm/acknowledged"
_OVERWRITE = (
    "n=$((n+1)); printf %-512d $n | dd of=/dev/data conv=fsync,notrunc 2>/dev/null; echo $n > /dev/shm/acknowledged"
)
# A reset may leave zeros in place of a record that was not synced.
_RESUME = "n=$(tr -d '\\0' 2>/dev/null < /data/journal | tail -n 1); n=${n:-0}"
_RESUME_BLOCK = "n=$(dd if=/dev/data count=1 2>/dev/null | tr -d '\\0 '); n=${n:-0}"
_UNTIL = "trap 'exit 0' TERM; echo $n > /dev/shm/found; while :; do %s; usleep 20000; done"
WRITERS = {
    "local": f"{_RESUME}; {_UNTIL % _APPEND}",
    "files": f"{_RESUME}; {_UNTIL % _APPEND}",
    "block": f"{_RESUME_BLOCK}; {_UNTIL % _OVERWRITE}",
}


@pytest.fixture(scope="module")
def driver(node: VirtualNode) -> VirtualNode:
    """Virtual node with the CSI driver, and a claim per kind of volume."""
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w:gz") as tar:
        for file in sorted(Path("tests/csi_driver").glob("*.py")):
            tar.add(file)
    node.run(f"mkdir -p {HOME}; base64 -d | tar xz -C {HOME}", text=base64.b64encode(archive.getvalue()).decode())
    node.write("/etc/systemd/system/csi-test.service", UNIT)
    node.run("systemctl enable --now csi-test")
    common = {"accessModes": ["ReadWriteOnce"], "storageClassName": ""}
    objects: list[dict[str, Any]] = [
        {"apiVersion": "storage.k8s.io/v1", "kind": "CSIDriver", "metadata": {"name": DRIVER},
         "spec": {"attachRequired": False}},
        _claim("local", {"accessModes": ["ReadWriteOnce"], "volumeMode": "Filesystem"}),
    ]  # fmt: skip
    for name, mode in (("files", "Filesystem"), ("block", "Block")):
        spec = {**common, "volumeMode": mode, "capacity": {"storage": "1Mi"}, "persistentVolumeReclaimPolicy": "Retain"}
        spec["csi"] = {"driver": DRIVER, "volumeHandle": f"handle-{name}"}
        volume = {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": f"pv-{name}"}, "spec": spec}
        objects += [volume, _claim(name, {**common, "volumeMode": mode, "volumeName": f"pv-{name}"})]
    apply(node, *objects)
    return node


def _claim(name: str, spec: dict[str, Any]) -> dict[str, Any]:
    spec["resources"] = {"requests": {"storage": "1Mi"}}
    return {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": name}, "spec": spec}


def apply(node: VirtualNode, *objects: dict[str, Any]) -> None:
    documents = {"apiVersion": "v1", "kind": "List", "items": list(objects)}
    node.kubectl("create", "--validate=false", "--filename=-", text=json.dumps(documents))


def writer(name: str) -> dict[str, Any]:
    """Return a pod that writes numbered records to its claim."""
    device = {"volumeDevices": [{"name": "data", "devicePath": "/dev/data"}]}
    mount = {"volumeMounts": [{"name": "data", "mountPath": "/data"}]}
    volumes = [{"name": "data", "persistentVolumeClaim": {"claimName": name}}]
    return simple_pod(name, WRITERS[name], volumes=volumes, container=device if name == "block" else mount)


def inside(node: VirtualNode, uid: str, file: str) -> int:
    """Return the number in a file of the container of a pod; 0 without one."""
    # The processes are found by their cgroup, because the API server may not respond yet.
    find = f"grep -l {uid.replace('-', '_')} /proc/[0-9]*/cgroup 2>/dev/null | cut -d/ -f3"
    read = f"for p in $({find}); do cat /proc/$p/root/dev/shm/{file} 2>/dev/null; done | sort -n | tail -n 1"
    return int(node.run(read, check=False).strip() or 0)


def on_disk(node: VirtualNode, name: str) -> int:
    """Return the last record in the volume, read on the host without the pod."""
    if name == "block":
        image = f"{HOME}/state/volumes/*.img"
        return int(node.run(f"dd if=$(ls {image}) count=1 2>/dev/null | tr -d '\\0 '").strip() or 0)
    files = f"{ROOT}/local-volumes/*/data/journal" if name == "local" else f"{HOME}/state/volumes/*/journal"
    lines = node.run(f"cat {files} | tr -d '\\0'").split()
    assert lines == [str(number) for number in range(1, len(lines) + 1)], "no record is missing or damaged"
    return len(lines)


def reset(node: VirtualNode) -> None:
    """Reset the virtual node without stopping anything: data that is not on its disk is lost."""
    boot = node.boot_id()
    node.run(
        "echo 1 > /proc/sys/kernel/sysrq; (sleep 0.5; echo b > /proc/sysrq-trigger) >/dev/null 2>&1 &", check=False
    )
    node.wait_for_boot(boot)


def api_responds(node: VirtualNode) -> bool:
    return node.kubectl("get", "--raw", "/readyz", check=False) == "ok"


def leftovers(node: VirtualNode) -> list[str]:
    """Return the mounts, directories and loop devices of volumes."""
    commands = [
        f"findmnt -lno TARGET | grep -E '^{ROOT}/(pods|plugins)/.*(kubernetes.io~[cl]|/csi/)' || true",
        f"cd {ROOT}/plugins/kubernetes.io/csi && ls -d {DRIVER}/* volumeDevices/*/* 2>/dev/null || true",
        f"ls -d {ROOT}/local-volumes/* {HOME}/state/staged/* {HOME}/state/published/* 2>/dev/null || true",
        f"losetup --noheadings --list --output BACK-FILE | grep -E '{ROOT}|{HOME}' || true",
    ]
    return node.run("; ".join(commands)).splitlines()


def uids_of(node: VirtualNode) -> dict[str, str]:
    pods = node.pods()
    return {name: pods[name]["metadata"]["uid"] for name in CLAIMS}


def test_pods_write_on_while_all_services_are_killed(driver: VirtualNode) -> None:
    node = driver
    apply(node, *map(writer, CLAIMS))
    containers = {name: main_container(pod) for name, pod in node.wait_for_running(*CLAIMS, seconds=600).items()}
    uids = uids_of(node)
    node.run(f"for unit in {' '.join(SERVICES)}; do systemctl kill --kill-who=main --signal=KILL $unit; done")
    killed = {name: inside(node, uid, "acknowledged") for name, uid in uids.items()}
    for unit in SERVICES:
        active = f"systemctl is-active {unit}"
        wait_until(lambda: node.run(active, check=False).strip() == "active", f"{unit} is active", 900, 2.0)  # noqa: B023
    wait_until(lambda: api_responds(node), "the API server responds", 600, 2.0)
    now = node.wait_for_running(*CLAIMS, seconds=600)
    for name, uid in uids.items():
        assert main_container(now[name]) == containers[name]
        acknowledged = inside(node, uid, "acknowledged")
        assert acknowledged > killed[name]
        assert on_disk(node, name) >= acknowledged


def test_fsynced_data_survives_resets(driver: VirtualNode, measures: Measures) -> None:
    node = driver
    uids = uids_of(node)
    for number in (1, 2):
        before = {name: inside(node, uid, "acknowledged") for name, uid in uids.items()}
        assert all(before.values()), before
        watch = Stopwatch()
        reset(node)
        for name, minimum in before.items():
            assert on_disk(node, name) >= minimum
        wait_until(lambda: all(inside(node, uid, "acknowledged") for uid in uids.values()), "all pods write", 900, 2.0)
        measures.note(f"reset {number} until all pods with claims write again, s", watch.seconds())
        for name, minimum in before.items():
            assert inside(node, uids[name], "found") >= minimum
    # The pods write to their volumes, and not to directories of the root disk at the same paths.
    for name in CLAIMS:
        acknowledged = inside(node, uids[name], "acknowledged")  # The pod continues to write.
        assert on_disk(node, name) >= acknowledged


def test_reset_during_deletion_leaves_nothing_behind(driver: VirtualNode, measures: Measures) -> None:
    node = driver
    wait_until(lambda: api_responds(node), "the API server responds", 600, 2.0)
    before = {name: inside(node, uid, "acknowledged") for name, uid in uids_of(node).items()}
    node.delete(*CLAIMS)
    node.kubectl("delete", "--wait=false", "persistentvolumeclaims", "local")
    watch = Stopwatch()
    reset(node)
    wait_until(lambda: api_responds(node), "the API server responds", 600, 2.0)
    node.wait_for_end(*CLAIMS, seconds=900)
    measures.note("reset during a deletion until the pods are deleted, s", watch.seconds())
    for name in ("files", "block"):
        assert on_disk(node, name) >= before[name]
    node.kubectl("delete", "--wait=false", "persistentvolumeclaims", "files", "block", check=False)
    node.kubectl("delete", "--wait=false", "persistentvolumes", "pv-files", "pv-block", check=False)
    remaining = "get", "persistentvolumeclaims,persistentvolumes", "--all-namespaces", "--output=name"
    wait_until(lambda: not node.kubectl(*remaining).strip(), "claims and volumes are deleted", 300, 2.0)
    wait_until(lambda: not leftovers(node), "nothing of the volumes remains", 300, 2.0)
    assert "pv-" not in node.run("nodeagent volumes --output json", check=False)

"""Tests of volumes that need no driver, with file systems that a build host may not have: NFS and project quotas."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.integration.programs import simple_pod, wait_until
from tests.vm.machine import VirtualNode
from tests.vm.test_storage import apply

pytestmark = pytest.mark.timeout(1800)

ROOT = "/var/lib/kubelet"
LOCAL, IMAGE = f"{ROOT}/local-volumes", "/var/lib/quotas.img"
EXPORT = "/srv/export"
MIB = 1 << 20
WAIT = "exec sleep 1000000"


@pytest.fixture
def nfs(node: VirtualNode) -> Iterator[VirtualNode]:
    """Virtual node with an NFS server, and a claim on its export."""
    node.run(
        f"mkdir -p {EXPORT} && chmod 777 {EXPORT} && echo '{EXPORT} 127.0.0.1(rw,sync,no_subtree_check)' > /etc/exports"
    )
    node.run("systemctl restart nfs-server && exportfs -ra", seconds=300)
    common: dict[str, Any] = {"accessModes": ["ReadWriteMany"], "storageClassName": ""}
    source = {"nfs": {"server": "127.0.0.1", "path": EXPORT}, "mountOptions": ["nfsvers=4.2"]}
    spec = {**common, **source, "capacity": {"storage": "1Mi"}, "persistentVolumeReclaimPolicy": "Retain"}
    requested = {**common, "volumeName": "pv-nfs", "resources": {"requests": {"storage": "1Mi"}}}
    apply(
        node,
        {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": "pv-nfs"}, "spec": spec},
        {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "nfs"}, "spec": requested},
    )
    yield node
    node.run("systemctl start nfs-server", check=False, seconds=300)
    node.kubectl("delete", "--wait=false", "persistentvolumeclaims/nfs", "persistentvolumes/pv-nfs", check=False)


@pytest.fixture(params=["xfs", "ext4"])
def quotas(node: VirtualNode, request: pytest.FixtureRequest) -> Iterator[VirtualNode]:
    """Virtual node whose local volumes are on a file system with project quotas."""
    options = {"xfs": "", "ext4": "-O project,quota -E quotatype=prjquota -F"}[request.param]
    node.run(f"mkdir -p {LOCAL} && truncate -s 400M {IMAGE} && mkfs.{request.param} -q {options} {IMAGE}")
    node.run(f"mount -o loop,prjquota {IMAGE} {LOCAL}")
    yield node
    node.kubectl("delete", "--ignore-not-found", "pods/filler", "persistentvolumeclaims/small", check=False)
    node.run(f"umount {LOCAL}; rm -f {IMAGE}", check=False)


def user(name: str, claim: str, command: str) -> dict[str, Any]:
    volumes = [{"name": "data", "persistentVolumeClaim": {"claimName": claim}}]
    return simple_pod(
        name, command, volumes=volumes, container={"volumeMounts": [{"name": "data", "mountPath": "/data"}]}
    )


def test_claims_use_an_nfs_server_which_may_stop(nfs: VirtualNode) -> None:
    node = nfs
    apply(node, user("writer", "nfs", f"echo kept > /data/file; sync /data/file; {WAIT}"))
    node.wait_for_running("writer")
    apply(node, user("reader", "nfs", f"cat /data/file; {WAIT}"))
    uid = node.wait_for_running("reader")["reader"]["metadata"]["uid"]
    assert node.run(f"cat {EXPORT}/file") == "kept\n"
    wait_until(lambda: node.kubectl("logs", "reader", check=False) == "kept\n", "the second pod reads the file", 120)
    target = f"{ROOT}/pods/{uid}/volumes/kubernetes.io~nfs/pv-nfs"
    assert node.run(f"findmnt -no FSTYPE {target}").strip() == "nfs4"
    node.delete("reader")
    node.wait_for_end("reader")

    # Without the server, every access to the mount of the other pod blocks.
    node.run("systemctl stop nfs-server", seconds=300)
    apply(node, simple_pod("unaffected", WAIT))
    node.wait_for_running("unaffected")
    assert node.condition("Ready") == "True"
    node.delete("writer", "unaffected")
    node.wait_for_end("writer", "unaffected", seconds=600)

    assert not node.run("findmnt -lno TARGET -t nfs4", check=False)
    assert node.run(f"cat {EXPORT}/file") == "kept\n"


def test_size_of_a_local_volume_is_enforced_by_a_quota(quotas: VirtualNode) -> None:
    node = quotas
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "8Mi"}}}
    apply(node, {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "small"}, "spec": spec})
    fill = "fill() { dd if=/dev/zero of=/data/file bs=1M count=$1 conv=fsync 2>/dev/null; }"
    apply(
        node,
        user("filler", "small", f"{fill}; fill 20 || echo full; until fill 12; do sleep 1; done; echo grown; {WAIT}"),
    )
    node.wait_for_running("filler")
    log = ("logs", "filler")
    wait_until(lambda: node.kubectl(*log, check=False).split() == ["full"], "the volume is full", 120)
    lines = json.loads(node.run("nodeagent volumes --output json default/filler"))["volumes"]
    (volume,) = [line for line in lines if line.get("claim")]
    assert "usedBytes" not in volume or volume["usedBytes"] + volume["availableBytes"] <= 8 * MIB, volume
    assert node.run(f"df --output=size -B1 {LOCAL}/*/data").split()[1] == str(8 * MIB)

    patch = {"spec": {"resources": {"requests": {"storage": "16Mi"}}}}
    node.kubectl("patch", "persistentvolumeclaims", "small", "--patch", json.dumps(patch))
    claim = "/api/v1/namespaces/default/persistentvolumeclaims/small"
    wait_until(lambda: json.loads(node.raw(claim))["status"]["capacity"] == {"storage": "16Mi"}, "the claim grows", 120)
    wait_until(lambda: node.kubectl(*log, check=False).split() == ["full", "grown"], "the volume has space again", 120)

    node.delete("filler")
    node.wait_for_end("filler")
    node.kubectl("delete", "--wait=false", "persistentvolumeclaims", "small")
    wait_until(lambda: not node.run(f"ls {LOCAL}").replace("lost+found", "").strip(), "the directory is deleted", 120)

"""Tests for CSI migration of in-tree sources."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from nodeagent.errors import VolumeError
from nodeagent.model.persistent_volume import PersistentVolume
from nodeagent.model.pod import Volume
from nodeagent.model.wire import to_wire
from nodeagent_plugins.persistent_claims.migration import to_csi, volume_to_csi

ZONE = "topology.kubernetes.io/zone"


def pv(labels: dict[str, str] | None = None, **spec: Any) -> PersistentVolume:
    return msgspec.convert({"metadata": {"name": "pv-1", "labels": labels or {}}, "spec": spec}, PersistentVolume)


def csi(volume: PersistentVolume | None) -> Any:
    assert volume is not None
    return to_wire(volume.spec.csi)


def required(*zones: str, key: str = ZONE) -> dict[str, Any]:
    expression = {"key": key, "operator": "In", "values": list(zones)}
    return {"required": {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}}


def test_other_sources_are_unchanged() -> None:
    volume = pv(hostPath={"path": "/data"})

    assert to_csi(volume) is volume
    assert volume_to_csi(Volume(name="v"), "default") is None


def test_ebs_id_and_zone_are_translated() -> None:
    source = {"volumeID": "aws://eu-1a/vol-1", "fsType": "xfs", "readOnly": True, "partition": 2}
    translated = to_csi(pv(awsElasticBlockStore=source, nodeAffinity=required("eu-1a")))

    assert csi(translated) == {
        "driver": "ebs.csi.aws.com",
        "volumeHandle": "vol-1",
        "fsType": "xfs",
        "readOnly": True,
        "volumeAttributes": {"partition": "2"},
    }
    assert to_wire(translated.spec.node_affinity) == required("eu-1a", key="topology.ebs.csi.aws.com/zone")
    assert translated.spec.aws_elastic_block_store is None


def test_invalid_ebs_id_is_rejected() -> None:
    with pytest.raises(VolumeError, match=r"^failed to translate in-tree pv to CSI: .*\(aws://zone/disk\)$"):
        to_csi(pv(awsElasticBlockStore={"volumeID": "aws://zone/disk"}))


def test_zone_labels_become_node_affinity() -> None:
    translated = to_csi(pv({ZONE: "b__a"}, cinder={"volumeID": "c"}))

    assert to_wire(translated.spec.node_affinity) == required("a", "b", key="topology.cinder.csi.openstack.org/zone")


@pytest.mark.parametrize(
    ("label", "location"),
    [("", "zones/UNSPECIFIED"), ("us-east1-a", "zones/us-east1-a"), ("us-east1-a__us-east1-b", "regions/us-east1")],
)
def test_gce_disk_has_the_location_of_its_labels(label: str, location: str) -> None:
    labels = {ZONE: label} if label else {}
    translated = to_csi(pv(labels, gcePersistentDisk={"pdName": "d"}, accessModes=["ReadWriteMany"]))

    assert csi(translated)["volumeHandle"] == f"projects/UNSPECIFIED/{location}/disks/d"
    assert translated.spec.access_modes == ["ReadWriteOnce"]


def test_azure_file_needs_a_secret_namespace() -> None:
    source = {"secretName": "azure-storage-account-acc-secret", "shareName": "s"}

    with pytest.raises(VolumeError, match="could not find a secret namespace in PersistentVolumeSource or ClaimRef"):
        to_csi(pv(azureFile=source))
    translated = csi(to_csi(pv(azureFile=source, claimRef={"name": "c", "namespace": "ns"})))
    assert translated["volumeHandle"] == "#acc#s#pv-1#ns"
    assert translated["nodeStageSecretRef"] == {"name": "azure-storage-account-acc-secret", "namespace": "ns"}


def test_unmanaged_azure_disk_is_rejected() -> None:
    with pytest.raises(VolumeError, match=r"kind\(Dedicated\) is not supported in csi migration"):
        to_csi(pv(azureDisk={"diskName": "d", "diskURI": "u", "kind": "Dedicated"}))


@pytest.mark.parametrize(
    ("field", "source", "name"),
    [
        ("awsElasticBlockStore", {"volumeID": "vol-1"}, "ebs.csi.aws.com-vol-1"),
        ("gcePersistentDisk", {"pdName": "d"}, "pd.csi.storage.gke.io-d"),
        ("vsphereVolume", {"volumePath": "[ds] a.vmdk"}, "csi.vsphere.vmware.com-[ds] a.vmdk"),
        ("portworxVolume", {"volumeID": "p"}, "pxd.portworx.com-p"),
    ],
)
def test_inline_volume_is_named_after_driver_and_handle(field: str, source: dict[str, Any], name: str) -> None:
    translated = volume_to_csi(msgspec.convert({"name": "v", field: source}, Volume), "default")

    assert translated is not None and translated.metadata.name == name
    assert (translated.spec.access_modes, translated.spec.volume_mode) == (["ReadWriteOnce"], "Filesystem")

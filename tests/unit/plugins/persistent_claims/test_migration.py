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


@pytest.mark.parametrize(
    ("field", "source", "attributes"),
    [
        ("awsElasticBlockStore", {"volumeID": "vol-1"}, {"partition": "0"}),
        ("azureDisk", {"diskURI": "u", "kind": "managed"}, {"kind": "Managed"}),
        (
            "azureDisk",
            {"diskURI": "u", "cachingMode": "None", "fsType": "xfs"},
            {"kind": "Managed", "cachingmode": "None", "fstype": "xfs"},
        ),
        ("cinder", {"volumeID": "c"}, {}),
        ("gcePersistentDisk", {"pdName": "d"}, {"partition": ""}),
        ("gcePersistentDisk", {"pdName": "d", "partition": 3}, {"partition": "3"}),
        ("vsphereVolume", {"volumePath": "v"}, {}),
        ("vsphereVolume", {"volumePath": "v", "storagePolicyName": "gold"}, {"storagepolicyname": "gold"}),
    ],
)
def test_attributes_of_the_source_are_those_of_the_driver(
    field: str, source: dict[str, Any], attributes: dict[str, str]
) -> None:
    assert csi(to_csi(pv(**{field: source})))["volumeAttributes"] == attributes


@pytest.mark.parametrize(
    ("source", "handle"),
    [
        ({"secretName": "plain", "secretNamespace": "own"}, "group#plain#s#pv-1#own"),
        ({"secretName": "azure-storage-account-a-secret"}, "group#a#s#pv-1#claims"),
    ],
)
def test_azure_file_is_identified_by_group_account_share_and_namespace(source: dict[str, Any], handle: str) -> None:
    volume = {
        "metadata": {"name": "pv-1", "annotations": {"kubernetes.io/azure-file-resource-group": "group"}},
        "spec": {"azureFile": {"shareName": "s", **source}, "claimRef": {"name": "c", "namespace": "claims"}},
    }

    assert csi(to_csi(msgspec.convert(volume, PersistentVolume)))["volumeHandle"] == handle


@pytest.mark.parametrize(("namespace", "used"), [("ns", "ns"), ("", "default")])
def test_inline_azure_file_uses_the_namespace_of_the_pod(namespace: str, used: str) -> None:
    source = {"secretName": "s", "shareName": "share", "secretNamespace": "ignored"}

    translated = volume_to_csi(msgspec.convert({"name": "v", "azureFile": source}, Volume), namespace)

    assert translated is not None
    assert translated.metadata.name == csi(translated)["volumeHandle"] == f"#s#share#v#{used}"
    assert translated.spec.access_modes == ["ReadWriteMany"]


@pytest.mark.parametrize(
    ("field", "source", "mode"),
    [
        ("gcePersistentDisk", {"pdName": "d", "readOnly": True}, "ReadOnlyMany"),
        ("portworxVolume", {"volumeID": "p", "readOnly": True}, "ReadOnlyMany"),
        ("awsElasticBlockStore", {"volumeID": "vol-1", "readOnly": True}, "ReadWriteOnce"),
    ],
)
def test_read_only_inline_disk_can_be_shared(field: str, source: dict[str, Any], mode: str) -> None:
    translated = volume_to_csi(msgspec.convert({"name": "v", field: source}, Volume), "default")

    assert translated is not None and translated.spec.access_modes == [mode]


@pytest.mark.parametrize(
    ("modes", "translated"),
    [
        (None, None),
        (["ReadOnlyMany"], ["ReadOnlyMany"]),
        (["ReadOnlyMany", "ReadWriteOnce"], ["ReadWriteOnce"]),
    ],
)
def test_access_modes_of_a_gce_disk_are_those_of_its_driver(
    modes: list[str] | None, translated: list[str] | None
) -> None:
    assert to_csi(pv(gcePersistentDisk={"pdName": "d"}, accessModes=modes)).spec.access_modes == translated


@pytest.mark.parametrize(
    ("label", "error"),
    [("us-east1-a__b", "zone in unexpected format"), ("us-east1-a__us-west1-b", "multiple or no regions")],
)
def test_regional_gce_disk_with_invalid_zones_is_rejected(label: str, error: str) -> None:
    with pytest.raises(VolumeError, match=error):
        to_csi(pv({ZONE: label}, gcePersistentDisk={"pdName": "d"}))


def zones_of(volume: PersistentVolume) -> list[dict[str, Any]]:
    affinity = to_wire(volume.spec.node_affinity)["required"]["nodeSelectorTerms"]
    return [expression for term in affinity for expression in term["matchExpressions"]]


BETA_ZONE, BETA_REGION = "failure-domain.beta.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/region"
REGION = "topology.kubernetes.io/region"
VSPHERE = "topology.csi.vmware.com"


@pytest.mark.parametrize(
    ("labels", "affinity", "keys"),
    [
        ({BETA_ZONE: "a", BETA_REGION: "r"}, None, [(f"{VSPHERE}/zone", "a"), (f"{VSPHERE}/region", "r")]),
        ({ZONE: "a__b"}, None, [(f"{VSPHERE}/zone", "a__b")]),
        ({ZONE: "a"}, required("b"), [(f"{VSPHERE}/zone", "b")]),
        ({ZONE: "a"}, required("b", key=BETA_ZONE), [(f"{VSPHERE}/zone", "b")]),
        ({ZONE: "a"}, required("x", key="disk"), [("disk", "x"), (f"{VSPHERE}/zone", "a")]),
        ({}, required("x", key="disk"), [("disk", "x")]),
    ],
)
def test_topology_is_that_of_the_affinity_or_else_of_the_labels(
    labels: dict[str, str], affinity: dict[str, Any] | None, keys: list[tuple[str, str]]
) -> None:
    volume = to_csi(pv(labels, vsphereVolume={"volumePath": "v"}, nodeAffinity=affinity))

    assert [(each["key"], *each["values"]) for each in zones_of(volume)] == keys


def test_old_region_label_is_replaced_for_a_driver_without_regions() -> None:
    affinity = required("a", key=BETA_ZONE)
    affinity["required"]["nodeSelectorTerms"][0]["matchExpressions"].append(
        {"key": BETA_REGION, "operator": "In", "values": ["r"]}
    )

    volume = to_csi(pv(awsElasticBlockStore={"volumeID": "vol-1"}, nodeAffinity=affinity))

    assert [each["key"] for each in zones_of(volume)] == ["topology.ebs.csi.aws.com/zone", REGION]


def test_volume_without_topology_remains_without_one() -> None:
    assert to_csi(pv(cinder={"volumeID": "c"})).spec.node_affinity is None


def test_each_term_of_the_affinity_gets_the_zones_of_the_labels() -> None:
    affinity = {"required": {"nodeSelectorTerms": [{"matchFields": []}, {"matchExpressions": []}]}}

    volume = to_csi(pv({ZONE: "a"}, cinder={"volumeID": "c"}, nodeAffinity=affinity))

    assert [each["values"] for each in zones_of(volume)] == [["a"], ["a"]]

"""Validation of persistent volumes, and warnings about them."""

from __future__ import annotations

from typing import Any

import pytest

from apiserver_stub.apimachinery.status import Cause
from apiserver_stub.validation.persistent_volumes import (
    validate_volume,
    validate_volume_spec,
    validate_volume_update,
    volume_warnings,
)
from nodeagent.base.identity import Identity

CSI = {"driver": "csi.example.com", "volumeHandle": "h"}
SPEC: dict[str, Any] = {
    "capacity": {"storage": "1Gi"},
    "accessModes": ["ReadWriteOnce"],
    "persistentVolumeReclaimPolicy": "Retain",
    "volumeMode": "Filesystem",
    "csi": CSI,
}
NO_CSI = {name: value for name, value in SPEC.items() if name != "csi"}
TERM = {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]}
AFFINITY = {"required": {"nodeSelectorTerms": [TERM]}}


def short(causes: list[Cause]) -> list[tuple[str, str]]:
    return [(cause.reason.removeprefix("FieldValue"), cause.field.removeprefix("spec.")) for cause in causes]


def volume(spec: dict[str, Any], **metadata: Any) -> dict[str, Any]:
    return {"metadata": {"name": "volume", **metadata}, "spec": spec}


@pytest.mark.parametrize(
    ("spec", "errors"),
    [
        (SPEC, []),
        ({**SPEC, "accessModes": []}, [("Required", "accessModes")]),
        ({**SPEC, "accessModes": ["ReadWriteOncePod", "ReadOnlyMany"]}, [("Forbidden", "accessModes")]),
        ({**SPEC, "capacity": {}}, [("Required", "capacity"), ("NotSupported", "capacity")]),
        ({**SPEC, "capacity": {"storage": "-1"}}, [("Invalid", "capacity[storage]")] * 2),
        ({**SPEC, "capacity": {"cpu": "1"}}, [("NotSupported", "capacity")]),
        ({**SPEC, "persistentVolumeReclaimPolicy": "Keep"}, [("NotSupported", "persistentVolumeReclaimPolicy")]),
        ({**SPEC, "volumeMode": "Tape"}, [("NotSupported", "volumeMode")]),
        ({**SPEC, "storageClassName": "A"}, [("Invalid", "storageClassName")]),
        ({**SPEC, "nodeAffinity": {}}, [("Required", "nodeAffinity.required")]),
        ({**SPEC, "nodeAffinity": AFFINITY}, []),
        (NO_CSI, [("Required", "spec")]),
        ({**SPEC, "hostPath": {"path": "/a"}, "cephfs": {}}, [("Forbidden", "cephFS"), ("Forbidden", "csi")]),
        (
            {**SPEC, "flexVolume": {}, "nfs": {"server": "s", "path": "/"}},
            [("Required", "flexVolume.driver"), ("Forbidden", "csi")],
        ),
        (
            {**NO_CSI, "hostPath": {"path": "//"}, "persistentVolumeReclaimPolicy": "Recycle"},
            [("Forbidden", "persistentVolumeReclaimPolicy")],
        ),
        ({**NO_CSI, "local": {"path": "../a"}}, [("Invalid", "local.path"), ("Required", "nodeAffinity")]),
        ({**NO_CSI, "gcePersistentDisk": {}}, [("Required", "persistentDisk.pdName")]),
        (
            {**NO_CSI, "glusterfs": {"endpoints": "e", "path": "p", "endpointsNamespace": ""}},
            [("Invalid", "glusterfs.endpointsNamespace")],
        ),
        (
            {**NO_CSI, "azureFile": {"secretName": "s", "shareName": "s", "secretNamespace": ""}},
            [("Required", "azureFile.secretNamespace")],
        ),
        (
            {**NO_CSI, "cinder": {"volumeID": "v", "secretRef": {}}},
            [("Required", "cinder.secretRef.name"), ("Required", "cinder.secretRef.namespace")],
        ),
        (
            {**NO_CSI, "storageos": {"volumeName": "v", "secretRef": {"name": "n"}}},
            [("Required", "storageos.secretRef.namespace")],
        ),
        (
            {**NO_CSI, "iscsi": {"targetPortal": "p" * 60, "iqn": "x", "initiatorName": "iqn.2001-04.com.a:b"}},
            [("Invalid", "iscsi.iqn"), ("Invalid", "iscsi.targetportal")],
        ),
        (
            {**SPEC, "csi": {"driver": "A_b", "nodeExpandSecretRef": {"name": "A"}}},
            [
                ("Invalid", "csi.driver"),
                ("Required", "csi.volumeHandle"),
                ("Invalid", "csi.nodeExpandSecretRef.name"),
                ("Required", "csi.nodeExpandSecretRef.namespace"),
            ],
        ),
    ],
)
def test_errors_of_a_volume_are_those_of_upstream(spec: dict[str, Any], errors: list[tuple[str, str]]) -> None:
    assert short(validate_volume(volume(spec), Identity())) == errors


def test_inline_volume_has_a_csi_source_only() -> None:
    spec = {**NO_CSI, "storageClassName": "a", "persistentVolumeReclaimPolicy": "Delete", "claimRef": {}}

    assert short(validate_volume_spec(spec, "", "spec", inline=True, identity=Identity())) == [
        ("Forbidden", "claimRef"),
        ("Forbidden", "capacity"),
        ("Forbidden", "storageClassName"),
        ("Required", "csi"),
        ("Forbidden", "persistentVolumeReclaimPolicy"),
        ("Required", "spec"),
    ]


def test_mount_options_annotation_depends_on_the_source() -> None:
    annotations = {"volume.beta.kubernetes.io/mount-options": "ro"}

    assert [cause.field for cause in validate_volume(volume(SPEC, annotations=annotations), Identity())] == [
        "metadata.annotations.volume.beta.kubernetes.io/mount-options"
    ]
    nfs = {**NO_CSI, "nfs": {"server": "s", "path": "/"}}
    assert validate_volume(volume(nfs, annotations=annotations), Identity()) == []


@pytest.mark.parametrize(
    ("spec", "old", "errors"),
    [
        (SPEC, SPEC, []),
        ({**SPEC, "csi": {**CSI, "controllerExpandSecretRef": {"name": "n", "namespace": "n"}}}, SPEC, []),
        ({**SPEC, "csi": {**CSI, "fsType": "xfs"}}, SPEC, [("Forbidden", "persistentvolumesource")]),
        ({**SPEC, "volumeMode": "Block"}, SPEC, [("Invalid", "volumeMode")]),
        ({**SPEC, "nodeAffinity": AFFINITY}, SPEC, []),
        (SPEC, {**SPEC, "nodeAffinity": AFFINITY}, [("Invalid", "nodeAffinity")]),
        ({**SPEC, "volumeAttributesClassName": "a"}, SPEC, [("Forbidden", "volumeAttributesClassName")]),
        ({**SPEC, "storageClassName": "A"}, SPEC, [("Invalid", "storageClassName")] * 2),
    ],
)
def test_errors_of_an_update_are_those_of_upstream(
    spec: dict[str, Any], old: dict[str, Any], errors: list[tuple[str, str]]
) -> None:
    causes = validate_volume_update(volume(spec), volume(old), gate=False, attributes_class=False, identity=Identity())

    assert short(causes) == errors


def test_deprecated_label_in_the_affinity_may_be_replaced() -> None:
    def spec(key: str) -> dict[str, Any]:
        expression = {"key": key, "operator": "In", "values": ["a"]}
        return {**SPEC, "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}}}

    old, new = spec("failure-domain.beta.kubernetes.io/zone"), spec("topology.kubernetes.io/zone")

    assert (
        validate_volume_update(volume(new), volume(old), gate=False, attributes_class=False, identity=Identity()) == []
    )
    assert volume_warnings(volume(old), Identity()) == [
        "spec.nodeAffinity.required.nodeSelectorTerms[0].matchExpressions[0].key: "
        'failure-domain.beta.kubernetes.io/zone is deprecated since v1.17; use "topology.kubernetes.io/zone" instead'
    ]


def test_class_of_attributes_needs_a_csi_source() -> None:
    spec = {**NO_CSI, "nfs": {"server": "s", "path": "/"}, "volumeAttributesClassName": ""}

    assert short(validate_volume(volume(spec), attributes_class=True, identity=Identity())) == [
        ("Required", "volumeAttributesClassName"),
        ("Required", "csi"),
    ]


def test_deprecated_sources_and_annotations_are_warned_about() -> None:
    annotations = {"volume.beta.kubernetes.io/storage-class": "a"}
    new = volume({**NO_CSI, "storageos": {}}, annotations=annotations)

    assert volume_warnings(new, Identity()) == [
        'metadata.annotations[volume.beta.kubernetes.io/storage-class]: deprecated since v1.8; use "storageClassName" '
        "attribute instead",
        "spec.storageOS: deprecated in v1.22, non-functional in v1.25+",
    ]

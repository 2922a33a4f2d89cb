"""Validation of storage classes, CSI drivers, CSI nodes and volume attachments."""

from __future__ import annotations

from typing import Any

import pytest

from apiserver_stub.apimachinery.status import Cause
from apiserver_stub.validation.csi import (
    DriverOptions,
    driver_warnings,
    validate_driver,
    validate_driver_update,
    validate_node_drivers,
    validate_node_drivers_update,
)
from apiserver_stub.validation.storage_classes import (
    storage_class_warnings,
    validate_attributes_class,
    validate_attributes_class_update,
    validate_storage_class,
    validate_storage_class_update,
)
from apiserver_stub.validation.volume_attachments import validate_attachment, validate_attachment_update
from nodeagent.base.identity import Identity
from nodeagent.base.release import NEWEST

CLASS = {"provisioner": "csi.example.com", "reclaimPolicy": "Delete", "volumeBindingMode": "Immediate"}
DRIVER = {"attachRequired": True, "fsGroupPolicy": "File", "volumeLifecycleModes": ["Persistent"]}
NODE = {"name": "csi.example.com", "nodeID": "n", "topologyKeys": ["zone"]}
ATTACHMENT = {"attacher": "csi.example.com", "nodeName": "node", "source": {"persistentVolumeName": "v"}}


def short(causes: list[Cause]) -> list[tuple[str, str]]:
    return [(cause.reason.removeprefix("FieldValue"), cause.field.removeprefix("spec.")) for cause in causes]


def topologies(*terms: list[dict[str, Any]]) -> dict[str, Any]:
    return {"allowedTopologies": [{"matchLabelExpressions": term} for term in terms]}


@pytest.mark.parametrize(
    ("changes", "errors"),
    [
        ({}, []),
        ({"provisioner": ""}, [("Required", "provisioner")]),
        ({"provisioner": "a b"}, [("Invalid", "provisioner")]),
        ({"parameters": {"": "a"}}, [("Invalid", "parameters")]),
        ({"parameters": {str(number): "" for number in range(512)}}, []),
        ({"parameters": {str(number): "" for number in range(513)}}, [("TooLong", "parameters")]),
        ({"parameters": {"k": "v" * ((256 << 10) - 1)}}, []),
        ({"parameters": {"k": "v" * (256 << 10)}}, [("TooLong", "parameters")]),
        ({"reclaimPolicy": "Recycle"}, [("NotSupported", "reclaimPolicy")]),
        ({"volumeBindingMode": "Later"}, [("NotSupported", "volumeBindingMode")]),
        (topologies([{"key": "a", "values": ["b"]}], [{"key": "a", "values": ["c"]}]), []),
        (
            topologies([{"key": "a", "values": ["b", "b"]}, {"key": "a"}]),
            [
                ("Duplicate", "allowedTopologies[0].matchLabelExpressions[0].values[1]"),
                ("Required", "allowedTopologies[0].matchLabelExpressions[1].values"),
                ("Duplicate", "allowedTopologies[0].matchLabelExpressions[1].key"),
            ],
        ),
        (
            topologies([{"key": "a", "values": ["b"]}], [{"key": "a", "values": ["b"]}]),
            [("Duplicate", "allowedTopologies[1].matchLabelExpressions")],
        ),
    ],
)
def test_errors_of_a_storage_class_are_those_of_upstream(
    changes: dict[str, Any], errors: list[tuple[str, str]]
) -> None:
    assert short(validate_storage_class({**CLASS, **changes})) == errors


def test_storage_class_hardly_changes() -> None:
    new = {**CLASS, "provisioner": "b", "parameters": {"a": "b"}, "volumeBindingMode": "WaitForFirstConsumer"}

    assert short(validate_storage_class_update(new, CLASS)) == [
        ("Forbidden", "parameters"),
        ("Forbidden", "provisioner"),
        ("Invalid", "volumeBindingMode"),
    ]


def test_deprecated_label_in_a_topology_is_warned_about() -> None:
    new = topologies([{"key": "beta.kubernetes.io/arch", "values": ["a"]}])

    assert storage_class_warnings(new, Identity()) == [
        'allowedTopologies[0].matchLabelExpressions[0].key: deprecated since v1.14; use "kubernetes.io/arch" instead'
    ]


def test_errors_of_a_driver_are_those_of_upstream() -> None:
    tokens = [
        {"audience": "a", "expirationSeconds": 1},
        {"audience": "a"},
        {"expirationSeconds": (1 << 32) + 1},
        {"audience": "b", "expirationSeconds": 1 << 32},
    ]
    new = {"fsGroupPolicy": "All", "volumeLifecycleModes": ["Never"], "tokenRequests": tokens}
    errors = [
        ("NotSupported", "fsGroupPolicy"),
        ("Invalid", "tokenRequests[0].expirationSeconds"),
        ("Duplicate", "tokenRequests[1].audience"),
        ("Invalid", "tokenRequests[2].expirationSeconds"),
        ("NotSupported", "volumeLifecycleModes"),
    ]

    assert validate_driver(DRIVER) == []
    assert short(validate_driver(new)) == errors
    assert short(validate_driver(DRIVER, DriverOptions(selinux_mount=True))) == [("Required", "seLinuxMount")]
    assert short(validate_driver_update({**DRIVER, "attachRequired": False}, DRIVER)) == [
        ("Invalid", "attachedRequired")
    ]


def test_errors_of_the_drivers_of_a_node_are_those_of_upstream() -> None:
    wrong = {"name": "a_b", "nodeID": "n" * 257, "allocatable": {"count": -1}, "topologyKeys": ["", "a", "a"]}

    assert validate_node_drivers([NODE]) == validate_node_drivers([{**NODE, "nodeID": "n" * 256}]) == []
    assert short(validate_node_drivers([wrong, {"name": "a_b"}])) == [
        ("Invalid", "drivers[0].name"),
        ("Invalid", "drivers[0].nodeID"),
        ("Invalid", "drivers[0].allocatable.count"),
        ("Required", "drivers[0]"),
        ("Invalid", "drivers[0]"),
        ("Invalid", "drivers[0]"),
        ("Duplicate", "drivers[0]"),
        ("Invalid", "drivers[1].name"),
        ("Required", "drivers[1].nodeID"),
        ("Duplicate", "drivers[1].name"),
    ]
    assert short(validate_node_drivers_update([{**NODE, "nodeID": "m"}], [NODE])) == [("Invalid", "CSINodeDriver")]
    assert validate_node_drivers_update([], [NODE]) == []


@pytest.mark.parametrize(
    ("changes", "errors"),
    [
        ({}, []),
        ({"attacher": ""}, [("Required", "attacher")] * 2 + [("Invalid", "attacher")]),
        ({"nodeName": "A"}, [("Invalid", "nodeName")]),
        ({"source": {}}, [("Required", "source")]),
        ({"source": {"persistentVolumeName": "v", "inlineVolumeSpec": {}}}, [("Forbidden", "source")]),
        (
            {"source": {"inlineVolumeSpec": {"accessModes": ["ReadWriteOnce"], "nfs": {"server": "s", "path": "/"}}}},
            [("Required", "source.inlineVolumeSpec.csi")],
        ),
    ],
)
def test_errors_of_an_attachment_are_those_of_upstream(changes: dict[str, Any], errors: list[tuple[str, str]]) -> None:
    assert short(validate_attachment({"spec": {**ATTACHMENT, **changes}}, Identity())) == errors


@pytest.mark.parametrize(
    ("status", "errors"),
    [
        ({"attachmentMetadata": {"k": "x" * ((256 << 10) - 1)}}, []),
        ({"attachmentMetadata": {"k": "x" * (256 << 10)}}, [("TooLong", "status.attachmentMetadata")]),
        ({"attachError": {"message": "x" * 1024, "errorCode": 0}}, []),
        ({"attachError": {"message": "x" * 1025}}, [("TooLong", "status.attachError.message")]),
        ({"detachError": {"errorCode": -1}}, [("Invalid", "status.detachError.errorCode")]),
    ],
)
def test_status_of_an_attachment_is_limited(status: dict[str, Any], errors: list[tuple[str, str]]) -> None:
    causes = validate_attachment({"spec": ATTACHMENT, "status": status}, Identity())

    assert [(cause.reason.removeprefix("FieldValue"), cause.field) for cause in causes] == errors


def test_attachment_keeps_its_specification() -> None:
    status = {"attachError": {"message": "m" * 1025}}

    assert short(validate_attachment_update({"spec": ATTACHMENT, "status": status}, {"spec": {}}, Identity())) == [
        ("TooLong", "status.attachError.message"),
        ("TooLong", "status.attachError.message"),
        ("Invalid", "spec"),
    ]


@pytest.mark.parametrize(
    ("changes", "errors"),
    [
        ({"nodeAllocatableUpdatePeriodSeconds": 10}, []),
        ({"nodeAllocatableUpdatePeriodSeconds": 9}, [("Invalid", "nodeAllocatableUpdatePeriodSeconds")]),
        ({"serviceAccountTokenInSecrets": False}, [("Invalid", "serviceAccountTokenInSecrets")]),
        ({"serviceAccountTokenInSecrets": True, "tokenRequests": [{"audience": "a"}]}, []),
    ],
)
def test_fields_of_newer_drivers_are_validated(changes: dict[str, Any], errors: list[tuple[str, str]]) -> None:
    assert short(validate_driver({**DRIVER, **changes})) == errors


def test_later_releases_allow_more_changes_of_drivers() -> None:
    new, options = {**DRIVER, "fsGroupPolicy": "None", "podInfoOnMount": True}, DriverOptions(release=NEWEST)

    assert short(validate_driver_update(new, DRIVER)) == [("Invalid", "fsGroupPolicy"), ("Invalid", "podInfoOnMount")]
    assert validate_driver_update(new, DRIVER, options) == []


def test_tokens_in_volume_attributes_are_warned_about() -> None:
    new = {**DRIVER, "tokenRequests": [{"audience": "a"}]}

    assert driver_warnings(new, None) == driver_warnings(new, DRIVER)
    assert driver_warnings(new, DRIVER)[0].startswith("spec.serviceAccountTokenInSecrets is unset;")
    assert driver_warnings(new, new) == driver_warnings(DRIVER, None) == []
    assert driver_warnings({**new, "serviceAccountTokenInSecrets": False}, None) == []


def test_number_of_volumes_changes_only_with_its_gate() -> None:
    new = [{**NODE, "allocatable": {"count": 3}}]

    assert validate_node_drivers_update(new, [NODE], NEWEST, mutable_count=True) == []
    (cause,) = validate_node_drivers_update(new, [NODE], NEWEST)
    assert cause.field == "spec.drivers"
    (cause,) = validate_node_drivers_update(new, [NODE])
    assert cause.field == "CSINodeDriver"


@pytest.mark.parametrize(
    ("changes", "errors"),
    [
        ({}, []),
        ({"driverName": ""}, [("Required", "driverName")]),
        ({"driverName": "a b"}, [("Invalid", "driverName")]),
        ({"parameters": {}}, [("Required", "parameters")]),
        ({"parameters": {"": "a"}}, [("Invalid", "parameters")]),
    ],
)
def test_errors_of_a_volume_attributes_class(changes: dict[str, Any], errors: list[tuple[str, str]]) -> None:
    attributes = {"driverName": "csi.example.com", "parameters": {"iops": "9"}}

    assert short(validate_attributes_class({**attributes, **changes})) == errors


def test_volume_attributes_class_is_immutable() -> None:
    old, new = {"driverName": "a", "parameters": {"iops": "1"}}, {"driverName": "b", "parameters": {"iops": "2"}}

    causes = short(validate_attributes_class_update(new, old))

    assert causes == [("Forbidden", "driverName"), ("Forbidden", "parameters")]

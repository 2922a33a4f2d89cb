"""Tests for the validation of volume sources."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from apiserver_stub.validation import volume_sources
from apiserver_stub.validation.volume_sources import Rule
from nodeagent.base.identity import Identity

_ISCSI = {"targetPortal": "10.0.0.1", "iqn": "iqn.2001-04.com.example:a"}


@pytest.mark.parametrize(
    ("rule", "source", "expected"),
    [
        (volume_sources.validate_host_path, {"path": "/a"}, []),
        (volume_sources.validate_host_path, {}, ["Required s.path"]),
        (volume_sources.validate_host_path, {"path": "/a/../b"}, ["Invalid s.path"]),
        (volume_sources.validate_host_path, {"path": "/a", "type": "Pipe"}, ["NotSupported s.type"]),
        (volume_sources.validate_nfs, {"server": "a"}, ["Required s.path", "Invalid s.path"]),
        (volume_sources.validate_iscsi, _ISCSI, []),
        (volume_sources.validate_iscsi, {**_ISCSI, "iqn": "abc"}, ["Invalid s.iqn"]),
        (volume_sources.validate_iscsi, {**_ISCSI, "lun": 256}, ["Invalid s.lun"]),
        (volume_sources.validate_iscsi, {**_ISCSI, "initiatorName": "iqn"}, ["Invalid s.initiatorname"]),
        (volume_sources.validate_iscsi, {**_ISCSI, "chapAuthSession": True}, ["Required s.secretRef"]),
        (volume_sources.validate_fc, {"targetWWNs": ["a"]}, ["Required s.lun"]),
        (volume_sources.validate_fc, {}, ["Required s.targetWWNs"]),
        (volume_sources.validate_gce_disk, {"partition": 256}, ["Required s.pdName", "Invalid s.partition"]),
        (
            volume_sources.validate_azure_disk,
            {"diskName": "a", "diskURI": "/subscriptions/a", "kind": "Shared", "cachingMode": "All"},
            ["NotSupported s.cachingMode", "NotSupported s.diskURI"],
        ),
        (volume_sources.validate_quobyte, {"registry": "a:1,b", "volume": "v"}, ["Invalid s.registry"]),
        (volume_sources.validate_quobyte, {"registry": "[::1]:1", "volume": "v"}, []),
        (
            volume_sources.validate_flocker,
            {"datasetName": "a/b", "datasetUUID": "c"},
            ["Invalid s", "Invalid s.datasetName"],
        ),
        (
            partial(volume_sources.validate_flex_volume, identity=Identity()),
            {"driver": "a/b", "options": {"x.kubernetes.io/a": "b", "k8s.io": "c", "example.com/a": "d"}},
            ["Invalid s.options[x.kubernetes.io/a]", "Invalid s.options[k8s.io]"],
        ),
        (volume_sources.validate_git_repo, {"directory": "/a"}, ["Required s.repository", "Invalid s.directory"]),
        (
            volume_sources.validate_storage_os,
            {"volumeName": "A", "secretRef": {}},
            ["Invalid s.volumeName", "Required s.secretRef.name"],
        ),
        (volume_sources.needs("a", "b"), {"a": "x"}, ["Required s.b"]),
    ],
)
def test_sources(rule: Rule, source: dict[str, Any], expected: list[str]) -> None:
    causes = rule(source, "s")

    assert [f"{cause.reason.removeprefix('FieldValue')} {cause.field}" for cause in causes] == expected


@pytest.mark.parametrize(("name", "count"), [("csi.example.com", 0), ("CSI.example.com", 0), ("", 2), ("a" * 64, 1)])
def test_names_of_csi_drivers(name: str, count: int) -> None:
    assert len(volume_sources.validate_csi_driver_name(name, "d")) == count

"""Tests for the conversion of kinds of dynamic resource allocation between API versions."""

from __future__ import annotations

import pytest

from apiserver_stub.apimachinery.device_versions import convert, structured

GROUP = "resource.k8s.io"
EXACT = {"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 1, "adminAccess": False}
V1_CLAIM = {
    "apiVersion": f"{GROUP}/v1",
    "kind": "ResourceClaim",
    "spec": {
        "devices": {
            "requests": [
                {"name": "one", "exactly": EXACT},
                {"name": "two", "firstAvailable": [{"name": "sub", "deviceClassName": "gpu"}]},
            ],
            "config": [{"opaque": {"driver": "d", "parameters": {}}}],
        }
    },
    "status": {"allocation": {}},
}
FLAT_CLAIM = V1_CLAIM | {
    "apiVersion": f"{GROUP}/v1beta1",
    "spec": {
        "devices": {
            "requests": [
                {"name": "one", **EXACT},
                {"name": "two", "deviceClassName": "", "firstAvailable": [{"name": "sub", "deviceClassName": "gpu"}]},
            ],
            "config": [{"opaque": {"driver": "d", "parameters": {}}}],
        }
    },
}


def template(claim):
    return claim | {"kind": "ResourceClaimTemplate", "spec": {"metadata": {"labels": {}}, "spec": claim["spec"]}}


V1_SLICE = {
    "apiVersion": f"{GROUP}/v1",
    "kind": "ResourceSlice",
    "spec": {
        "driver": "d",
        "nodeName": "n",
        "devices": [{"name": "a", "attributes": {"x": {"int": 0}}}, {"name": "b"}],
    },
}
FLAT_SLICE = {
    "apiVersion": f"{GROUP}/v1beta1",
    "kind": "ResourceSlice",
    "spec": {
        "driver": "d",
        "nodeName": "n",
        "devices": [{"name": "a", "basic": {"attributes": {"x": {"int": 0}}}}, {"name": "b", "basic": {}}],
    },
}
PAIRS = [
    (V1_CLAIM, FLAT_CLAIM),
    (template(V1_CLAIM), template(FLAT_CLAIM)),
    (V1_SLICE, FLAT_SLICE),
    tuple({"apiVersion": f"{GROUP}/{v}", "kind": "DeviceClass", "spec": {"config": []}} for v in ("v1", "v1beta1")),
]


@pytest.mark.parametrize(("v1", "flat"), PAIRS, ids=lambda obj: obj["kind"])
def test_object_is_converted_in_both_directions(v1, flat):
    assert convert(GROUP, "v1beta1", v1) == flat
    assert convert(GROUP, "v1", flat) == v1
    assert convert(GROUP, "v1beta2", flat) == v1 | {"apiVersion": f"{GROUP}/v1beta2"}
    assert convert(GROUP, "v1beta1", flat) == flat


@pytest.mark.parametrize(("v1", "flat"), PAIRS, ids=lambda obj: obj["kind"])
def test_structure_is_that_of_v1(v1, flat):
    assert structured(flat)["spec"] == v1["spec"]
    assert structured(v1) is v1


def test_empty_scope_of_a_flat_slice_is_unset():
    flat = {"apiVersion": f"{GROUP}/v1beta1", "kind": "ResourceSlice", "spec": {"nodeName": "", "allNodes": False}}

    assert convert(GROUP, "v1", flat)["spec"] == {}

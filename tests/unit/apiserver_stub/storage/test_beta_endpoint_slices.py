"""Tests for EndpointSlices that are stored in version v1beta1."""

from __future__ import annotations

from typing import Any

import pytest

from apiserver_stub.storage.beta_endpoint_slices import as_v1
from nodeagent.base.identity import Identity

ZONE, HOST = "topology.kubernetes.io/zone", "kubernetes.io/hostname"


@pytest.mark.parametrize(
    ("stored", "expected"),
    [
        ({"topology": {ZONE: "a"}}, {"zone": "a"}),
        ({"topology": {ZONE: "a", HOST: "n"}, "nodeName": "n"}, {"zone": "a", "nodeName": "n"}),
        ({"topology": {HOST: "m"}, "nodeName": "n"}, {"deprecatedTopology": {HOST: "m"}, "nodeName": "n"}),
        ({"topology": {HOST: "m"}}, {"deprecatedTopology": {HOST: "m"}}),
        ({"topology": {"own": "x", ZONE: "a"}}, {"deprecatedTopology": {"own": "x"}, "zone": "a"}),
        ({"topology": {}}, {}),
        ({"topology": None}, {}),
        ({"hostname": "h"}, {"hostname": "h"}),
    ],
)
def test_topology_of_endpoints_becomes_zone_and_node(stored: Any, expected: Any) -> None:
    item = {
        "apiVersion": "discovery.k8s.io/v1beta1",
        "endpoints": [{"addresses": ["192.0.2.1"], **stored}],
        "ports": [],
    }

    assert as_v1(item, Identity()) == {
        "apiVersion": "discovery.k8s.io/v1",
        "endpoints": [{"addresses": ["192.0.2.1"], **expected}],
        "ports": [],
    }


@pytest.mark.parametrize("endpoints", [{}, {"endpoints": None}, {"endpoints": []}])
def test_slice_without_endpoints_has_an_empty_list(endpoints: Any) -> None:
    assert as_v1({"apiVersion": "discovery.k8s.io/v1beta1", **endpoints}, Identity())["endpoints"] == []

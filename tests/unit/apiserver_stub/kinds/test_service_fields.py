"""Tests for service fields that depend on the type and on the service so far."""

from __future__ import annotations

from ipaddress import ip_network
from typing import Any

import pytest

from apiserver_stub.kinds.service_allocators import ServiceAllocators
from apiserver_stub.kinds.service_families import keeps_prefer_dual_stack, settle_families
from apiserver_stub.kinds.service_fields import drop_unused, keep_allocated

_PORT = {"name": "a", "port": 80, "nodePort": 30000}
_BALANCER = {"type": "LoadBalancer", "externalTrafficPolicy": "Local", "healthCheckNodePort": 30001}


@pytest.mark.parametrize(
    ("before", "spec", "expected"),
    [
        ({"clusterIP": "1", "clusterIPs": ["1"]}, {}, {"clusterIP": "1", "clusterIPs": ["1"]}),
        ({"clusterIP": "1", "clusterIPs": ["1", "2"]}, {}, {"clusterIP": "1", "clusterIPs": ["1", "2"]}),
        (
            {"clusterIP": "1", "clusterIPs": ["1"]},
            {"clusterIP": "None", "clusterIPs": ["1"]},
            {"clusterIP": "None", "clusterIPs": ["None"]},
        ),
        ({"clusterIP": "1", "clusterIPs": ["1"]}, {"type": "ExternalName"}, {"type": "ExternalName"}),
        (
            {"type": "NodePort", "ports": [_PORT]},
            {"type": "LoadBalancer", "ports": [{"name": "a", "port": 81}]},
            {"type": "LoadBalancer", "ports": [{"name": "a", "port": 81, "nodePort": 30000}]},
        ),
        (
            {"type": "NodePort", "ports": [_PORT]},
            {"type": "NodePort", "ports": [{"name": "a", "port": 81}, {"name": "b", "nodePort": 30000}]},
            {"type": "NodePort", "ports": [{"name": "a", "port": 81}, {"name": "b", "nodePort": 30000}]},
        ),
        (_BALANCER, _BALANCER | {"healthCheckNodePort": 0}, _BALANCER),
        (
            {"type": "NodePort", "ports": [_PORT]},
            {"type": "ClusterIP", "ports": [{"name": "a", "port": 80}]},
            {"type": "ClusterIP", "ports": [{"name": "a", "port": 80}]},
        ),
        (
            {"clusterIP": "1", "clusterIPs": ["1"], "type": "ExternalName"},
            {"clusterIP": "1"},
            {"clusterIP": "1", "clusterIPs": ["1"]},
        ),
        (
            {"clusterIP": "1", "clusterIPs": ["1"], "type": "ExternalName"},
            {"clusterIP": "2"},
            {"clusterIP": "2"},
        ),
    ],
)
def test_update_keeps_allocated_values(before: Any, spec: Any, expected: Any) -> None:
    spec = {**spec}

    keep_allocated(spec, before)

    assert spec == expected


@pytest.mark.parametrize(
    ("before", "spec", "expected"),
    [
        (
            {"clusterIP": "1", "clusterIPs": ["1"], "ipFamilies": ["IPv4"], "ipFamilyPolicy": "SingleStack"},
            {"type": "ExternalName", "clusterIP": "1", "clusterIPs": ["1"], "ipFamilies": ["IPv6"]},
            {"type": "ExternalName", "ipFamilies": ["IPv6"]},
        ),
        (
            {"type": "NodePort", "ports": [_PORT], "externalTrafficPolicy": "Cluster"},
            {"type": "ClusterIP", "ports": [_PORT], "externalTrafficPolicy": "Cluster"},
            {"type": "ClusterIP", "ports": [{"name": "a", "port": 80}]},
        ),
        (
            {"type": "NodePort", "ports": [_PORT]},
            {"type": "ClusterIP", "ports": [_PORT | {"nodePort": 30009}]},
            {"type": "ClusterIP", "ports": [_PORT | {"nodePort": 30009}]},
        ),
        (
            _BALANCER | {"allocateLoadBalancerNodePorts": True, "loadBalancerClass": "a/b"},
            _BALANCER | {"type": "ClusterIP", "allocateLoadBalancerNodePorts": False, "loadBalancerClass": "a/b"},
            {"type": "ClusterIP", "allocateLoadBalancerNodePorts": False},
        ),
    ],
)
def test_type_change_drops_unused_fields_that_did_not_change(before: Any, spec: Any, expected: Any) -> None:
    spec = {**spec, "ports": [{**port} for port in spec["ports"]]} if "ports" in spec else {**spec}

    drop_unused(spec, before)

    assert spec == expected


@pytest.mark.parametrize(
    ("spec", "served", "families", "policy"),
    [
        ({}, ["IPv4"], ["IPv4"], "SingleStack"),
        ({"clusterIP": "None", "clusterIPs": ["None"]}, ["IPv4"], ["IPv4", "IPv6"], "RequireDualStack"),
        ({"clusterIP": "None", "clusterIPs": ["None"], "selector": {"a": "b"}}, ["IPv6"], ["IPv6"], "SingleStack"),
        ({"ipFamilyPolicy": "PreferDualStack"}, ["IPv6", "IPv4"], ["IPv6", "IPv4"], "PreferDualStack"),
        ({"ipFamilyPolicy": "PreferDualStack"}, ["IPv4"], ["IPv4"], "PreferDualStack"),
        ({"clusterIP": "fd00::1", "clusterIPs": ["fd00::1"]}, ["IPv4", "IPv6"], ["IPv6"], "SingleStack"),
    ],
)
def test_families_follow_the_cluster(spec: Any, served: list[str], families: list[str], policy: str) -> None:
    spec = {"type": "ClusterIP", **spec}

    assert settle_families(spec, None, served) == []

    assert (spec["ipFamilies"], spec["ipFamilyPolicy"]) == (families, policy)


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        ({"ipFamilies": ["IPv6"]}, "spec.ipFamilies[0]"),
        ({"clusterIP": "fd00::1", "clusterIPs": ["fd00::1"]}, "spec.clusterIPs[0]"),
        ({"ipFamilyPolicy": "RequireDualStack"}, "spec.ipFamilyPolicy"),
        ({"ipFamilyPolicy": "SingleStack", "ipFamilies": ["IPv4", "IPv6"]}, "spec.ipFamilyPolicy"),
    ],
)
def test_families_that_the_cluster_lacks_are_invalid(spec: Any, field: str) -> None:
    assert [cause.field for cause in settle_families({"type": "ClusterIP", **spec}, None, ["IPv4"])] == [field]


def test_release_of_a_family_needs_a_policy() -> None:
    before = {"ipFamilies": ["IPv4", "IPv6"], "clusterIPs": ["1.1.1.1", "::1"], "ipFamilyPolicy": "PreferDualStack"}
    spec = {**before, "clusterIP": "1.1.1.1", "clusterIPs": ["1.1.1.1"], "ipFamilies": ["IPv4"]}

    causes = settle_families(spec, before, ["IPv4", "IPv6"])

    assert [cause.field for cause in causes] == ["spec.ipFamilyPolicy"] * 2


DUAL = {
    "type": "ClusterIP",
    "ipFamilyPolicy": "PreferDualStack",
    "clusterIPs": ["10.0.0.1"],
    "clusterIP": "10.0.0.1",
    "ipFamilies": ["IPv4"],
}


@pytest.mark.parametrize(
    ("spec", "before", "kept"),
    [
        (DUAL, DUAL, True),
        (DUAL, None, False),
        ({**DUAL, "type": "ExternalName"}, {**DUAL, "type": "ExternalName"}, False),
        ({**DUAL, "ipFamilyPolicy": "SingleStack"}, DUAL, False),
        (DUAL, {**DUAL, "ipFamilyPolicy": "SingleStack"}, False),
        ({**DUAL, "ipFamilyPolicy": "SingleStack"}, {**DUAL, "ipFamilyPolicy": "SingleStack"}, False),
        ({**DUAL, "ipFamilies": ["IPv4", "IPv6"]}, DUAL, False),
        ({**DUAL, "clusterIPs": ["10.0.0.2"]}, DUAL, False),
        ({**DUAL, "type": "NodePort"}, DUAL, False),
        ({**DUAL, "ipFamilies": None}, {**DUAL, "ipFamilies": []}, True),
        ({**DUAL, "ipFamilies": []}, {**DUAL, "ipFamilies": None}, True),
    ],
)
def test_unchanged_dual_stack_service_keeps_its_families(spec: Any, before: Any, *, kept: bool) -> None:
    assert keeps_prefer_dual_stack(spec, before) is kept


@pytest.mark.parametrize(("families", "expected"), [(["IPv4", "IPv6"], ["IPv4"]), (["IPv4"], ["IPv4"])])
def test_single_stack_releases_only_a_second_family(families: list[str], expected: list[str]) -> None:
    before = {**DUAL, "ipFamilies": families}
    spec = {**before, "ipFamilyPolicy": "SingleStack"}

    assert settle_families(spec, before, ["IPv4", "IPv6"]) == []
    assert spec["ipFamilies"] == expected


@pytest.mark.parametrize(("count", "kept"), [(16, 0), (17, 16)])
def test_ports_for_static_allocation_need_a_larger_range(count: int, kept: int) -> None:
    found = ServiceAllocators([ip_network("10.0.0.0/24")], range(30000, 30000 + count))

    assert found.ports.reserved == kept

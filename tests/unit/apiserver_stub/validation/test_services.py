"""Tests for the validation of services; :mod:`tests.differential` holds the broad comparison with upstream."""

from __future__ import annotations

from typing import Any

import pytest

from apiserver_stub.defaulting.services import SERVICE
from apiserver_stub.feature_gates import build_gates
from apiserver_stub.validation.services import (
    ServiceRules,
    balancer_warnings,
    service_warnings,
    validate_balancer_status,
    validate_service,
    validate_service_update,
)
from nodeagent.base.identity import Identity
from nodeagent.base.release import Release


def _service(**spec: Any) -> dict[str, Any]:
    annotations = spec.pop("annotations", {})
    service = {"metadata": {"name": "web", "annotations": annotations}, "spec": {"ports": [{"port": 80}], **spec}}
    SERVICE.apply(service)
    return service


def _texts(causes: list[Any]) -> list[str]:
    return [f"{cause.reason.removeprefix('FieldValue')} {cause.field}" for cause in causes]


_NAMED = [{"name": "a", "port": 80}, {"name": "b", "port": 81}]


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({}, []),
        ({"ports": []}, ["Required spec.ports"]),
        ({"ports": [], "clusterIP": "None", "clusterIPs": ["None"]}, []),
        ({"ports": [{"port": 80}, {"name": "b", "port": 81}]}, ["Required spec.ports[0].name"]),
        ({"ports": [_NAMED[0], _NAMED[1] | {"name": "a"}]}, ["Duplicate spec.ports[1].name"]),
        ({"ports": [_NAMED[0], _NAMED[1] | {"port": 80}]}, ["Duplicate spec.ports[1]"]),
        ({"ports": [_NAMED[0], _NAMED[1] | {"port": 80, "protocol": "UDP"}]}, []),
        ({"ports": [{"port": 0}]}, ["Invalid spec.ports[0].port", "Invalid spec.ports[0].targetPort"]),
        ({"ports": [{"port": 80, "protocol": "tcp"}]}, ["NotSupported spec.ports[0].protocol"]),
        ({"ports": [{"port": 80, "targetPort": "bad_port"}]}, ["Invalid spec.ports[0].targetPort"]),
        ({"ports": [{"port": 80, "appProtocol": "a b"}]}, ["Invalid spec.ports[0].appProtocol"]),
        ({"ports": [{"port": 80, "nodePort": 30080}]}, ["Forbidden spec.ports[0].nodePort"]),
        ({"type": "Other"}, ["NotSupported spec.type"]),
        ({"type": "NodePort", "clusterIP": "None", "clusterIPs": ["None"]}, ["Invalid spec.clusterIPs[0]"]),
        ({"type": "LoadBalancer", "ports": [{"port": 10250}]}, ["Invalid spec.ports[0]"]),
        ({"type": "ExternalName"}, ["Required spec.externalName"]),
        ({"type": "ExternalName", "externalName": "db.example.com.", "ports": []}, []),
        ({"type": "ExternalName", "externalName": "a", "clusterIPs": ["x"]}, ["Forbidden spec.clusterIPs"]),
        ({"selector": {"a": "b c"}}, ["Invalid spec.selector"]),
        ({"sessionAffinity": "Other"}, ["NotSupported spec.sessionAffinity"]),
        ({"sessionAffinity": "ClientIP"}, []),
        (
            {"sessionAffinity": "ClientIP", "sessionAffinityConfig": {"clientIP": {"timeoutSeconds": 86401}}},
            ["Invalid spec.sessionAffinityConfig.clientIP.timeoutSeconds"],
        ),
        ({"externalIPs": ["127.0.0.1"]}, ["Invalid spec.externalIPs[0]"]),
        ({"externalIPs": ["192.0.2.1"], "externalTrafficPolicy": "Local"}, []),
        ({"externalTrafficPolicy": "Local"}, ["Invalid spec.externalTrafficPolicy"]),
        ({"type": "NodePort", "externalTrafficPolicy": "Other"}, ["NotSupported spec.externalTrafficPolicy"]),
        ({"internalTrafficPolicy": "Other"}, ["NotSupported spec.internalTrafficPolicy"]),
        ({"healthCheckNodePort": 30000}, ["Invalid spec.healthCheckNodePort"]),
        ({"type": "LoadBalancer", "externalTrafficPolicy": "Local"}, ["Required spec.healthCheckNodePort"]),
        ({"loadBalancerClass": "a/b"}, ["Forbidden spec.loadBalancerClass"]),
        ({"type": "LoadBalancer", "loadBalancerClass": "a b"}, ["Invalid spec.loadBalancerClass"]),
        ({"allocateLoadBalancerNodePorts": True}, ["Forbidden spec.allocateLoadBalancerNodePorts"]),
        ({"loadBalancerSourceRanges": ["10.0.0.0/8"]}, ["Forbidden spec.LoadBalancerSourceRanges"]),
        ({"type": "LoadBalancer", "loadBalancerSourceRanges": ["x"]}, ["Invalid spec.LoadBalancerSourceRanges"]),
        (
            {
                "type": "LoadBalancer",
                "annotations": {"service.beta.kubernetes.io/load-balancer-source-ranges": "10.0.0.0/8, x"},
            },
            ["Invalid metadata.annotations[service.beta.kubernetes.io/load-balancer-source-ranges]"],
        ),
        ({"clusterIP": "10.0.0.1"}, ["Required spec.clusterIPs"]),
        ({"clusterIP": "10.0.0.1", "clusterIPs": ["10.0.0.2"]}, ["Invalid spec.clusterIPs"]),
        ({"clusterIPs": ["10.0.0.1"]}, ["Invalid spec.clusterIPs"]),
        ({"clusterIP": "x", "clusterIPs": ["x"]}, ["Invalid spec.clusterIPs[0]"]),
        ({"clusterIP": "10.0.0.1", "clusterIPs": ["10.0.0.1", "10.0.0.2"]}, ["Invalid spec.clusterIPs"]),
        (
            {"clusterIP": "10.0.0.1", "clusterIPs": ["10.0.0.1"], "ipFamilies": ["IPv6"]},
            ["Invalid spec.clusterIPs[0]"],
        ),
        ({"ipFamilies": ["IPv4", "IPv4"]}, ["Duplicate spec.ipFamilies[1]"]),
        (
            {"ipFamilies": ["X"], "ipFamilyPolicy": ""},
            ["NotSupported spec.ipFamilies[0]", "NotSupported spec.ipFamilyPolicy"],
        ),
    ],
)
def test_errors_of_service_are_reported(spec: dict[str, Any], expected: list[str]) -> None:
    assert _texts(validate_service(_service(**spec), Identity())) == expected


_IP = {"clusterIP": "10.0.0.1", "clusterIPs": ["10.0.0.1"], "ipFamilies": ["IPv4"], "ipFamilyPolicy": "SingleStack"}
_TWO = {"clusterIPs": ["10.0.0.1", "fd00::1"], "ipFamilies": ["IPv4", "IPv6"], "ipFamilyPolicy": "PreferDualStack"}


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ({}, {}, []),
        ({}, {"clusterIP": "10.0.0.2", "clusterIPs": ["10.0.0.2"]}, ["Invalid spec.clusterIPs[0]"]),
        ({}, {"clusterIP": "None", "clusterIPs": ["None"]}, ["Invalid spec.clusterIPs[0]"]),
        (
            {},
            {"clusterIP": "None", "clusterIPs": ["None"], "ipFamilies": ["IPv6"]},
            ["Invalid spec.clusterIPs[0]"],
        ),
        (
            {"clusterIP": "None", "clusterIPs": ["None"], "ipFamilies": ["IPv6"]},
            {},
            ["Invalid spec.clusterIPs[0]"],
        ),
        ({}, _TWO, []),
        (_TWO, {}, []),
        (_TWO, {"ipFamilyPolicy": "PreferDualStack"}, ["Invalid spec.ipFamilyPolicy", "Invalid spec.ipFamilyPolicy"]),
        (
            {"type": "LoadBalancer", "loadBalancerClass": "a/b"},
            {"type": "LoadBalancer", "loadBalancerClass": "a/c"},
            ["Invalid spec.loadBalancerClass"],
        ),
        (
            {"type": "LoadBalancer", "externalTrafficPolicy": "Local", "healthCheckNodePort": 30000},
            {"type": "LoadBalancer", "externalTrafficPolicy": "Local", "healthCheckNodePort": 30001},
            ["Forbidden spec.healthCheckNodePort"],
        ),
        ({}, {"loadBalancerClass": "a/b"}, ["Forbidden spec.loadBalancerClass"] * 2),
    ],
)
def test_errors_of_service_update_are_reported(old: dict[str, Any], new: dict[str, Any], expected: list[str]) -> None:
    assert _texts(validate_service_update(_service(**(_IP | new)), _service(**(_IP | old)), Identity())) == expected


@pytest.mark.parametrize(
    ("point", "expected"),
    [
        ({"ip": "10.0.0.1"}, []),
        ({"ip": "x"}, ["Invalid status.loadBalancer.ingress[0].ip"]),
        ({"hostname": "A"}, ["Invalid status.loadBalancer.ingress[0].hostname"]),
        ({"hostname": "10.0.0.1"}, ["Invalid status.loadBalancer.ingress[0].hostname"]),
    ],
)
def test_errors_of_load_balancer_status_are_reported(point: dict[str, Any], expected: list[str]) -> None:
    assert _texts(validate_balancer_status({"ingress": [point]}, "status.loadBalancer")) == expected


def test_only_load_balancers_have_a_status() -> None:
    causes = validate_balancer_status({"ingress": [{"ip": "10.0.0.1"}]}, "status.loadBalancer", is_balancer=False)

    assert _texts(causes) == ["Forbidden status.loadBalancer.ingress"]


def test_service_has_warnings() -> None:
    service = _service(
        externalIPs=["010.0.0.1"],
        loadBalancerIP="x",
        loadBalancerSourceRanges=["fd00:0::/64"],
        externalName="db.example.com",
        annotations={"service.kubernetes.io/topology-aware-hints": "Auto"},
    )

    assert [warning.partition(":")[0] for warning in service_warnings(service, Identity())] == [
        "annotation service.kubernetes.io/topology-aware-hints is deprecated, please use "
        "service.kubernetes.io/topology-mode instead",
        "spec.externalIPs[0]",
        "spec.loadBalancerIP",
        "spec.loadBalancerSourceRanges[0]",
        'spec.externalName is ignored when spec.type is not "ExternalName"',
    ]


def rules_of(minor: int, **gates: bool) -> ServiceRules:
    return ServiceRules.of(build_gates(gates, Release(1, minor)), Release(1, minor))


@pytest.mark.row("gate.LoadBalancerIPMode")
@pytest.mark.parametrize(
    ("point", "expected"),
    [
        ({"ip": "10.0.0.1", "ipMode": "Proxy"}, []),
        ({"ip": "10.0.0.1"}, ["Required status.loadBalancer.ingress[0].ipMode"]),
        ({"ip": "10.0.0.1", "ipMode": "x"}, ["NotSupported status.loadBalancer.ingress[0].ipMode"]),
        ({"hostname": "a", "ipMode": "VIP"}, ["Forbidden status.loadBalancer.ingress[0].ipMode"]),
    ],
)
def test_mode_of_balancer_addresses_is_validated_with_its_gate(point: dict[str, Any], expected: list[str]) -> None:
    enabled = rules_of(29, LoadBalancerIPMode=True)

    assert _texts(validate_balancer_status({"ingress": [point]}, "status.loadBalancer", enabled)) == expected
    assert validate_balancer_status({"ingress": [point]}, "status.loadBalancer", rules_of(29)) == []


@pytest.mark.parametrize(
    ("minor", "accepted"),
    [
        (29, {"PreferClose", "PreferSameZone", "PreferSameNode", "x"}),
        (31, {"PreferClose"}),
        (34, {"PreferClose", "PreferSameZone", "PreferSameNode"}),
    ],
)
def test_traffic_distributions_depend_on_the_release(minor: int, accepted: set[str]) -> None:
    for value in ("PreferClose", "PreferSameZone", "PreferSameNode", "x"):
        causes = validate_service(_service(trafficDistribution=value), Identity(), rules_of(minor))
        assert _texts(causes) == ([] if value in accepted else ["NotSupported spec.trafficDistribution"])


def test_ambiguous_addresses_are_errors_with_the_strict_gate() -> None:
    ranges = ["10.0.0.1/8", "10.0.0.0/08"]
    service = _service(type="LoadBalancer", externalIPs=["010.0.0.1"], loadBalancerSourceRanges=ranges)
    service["spec"]["externalTrafficPolicy"] = "Cluster"

    assert _texts(validate_service(service, Identity(), rules_of(36))) == [
        "Invalid spec.externalIPs[0]",
        "Invalid spec.LoadBalancerSourceRanges[0]",
        "Invalid spec.LoadBalancerSourceRanges[1]",
    ]
    assert validate_service(service, Identity(), rules_of(36), old=service) == []
    assert validate_service(service, Identity(), rules_of(36, StrictIPCIDRValidation=False)) == []


def test_later_releases_warn_about_ignored_fields() -> None:
    headless = _service(clusterIP="None", clusterIPs=["None"], loadBalancerIP="10.0.0.1", sessionAffinity="ClientIP")
    external = _service(externalIPs=["10.0.0.1"], trafficDistribution="PreferClose")

    assert service_warnings(headless, Identity(), rules_of(36).addresses) == [
        "spec.loadBalancerIP is ignored for headless services",
        "spec.SessionAffinity is ignored for headless services",
    ]
    assert service_warnings(external, Identity(), rules_of(36).addresses) == [
        "spec.externalIPs is deprecated and may no longer be implemented in some clusters",
        'spec.trafficDistribution: "PreferClose" is deprecated; use "PreferSameZone"',
    ]
    assert service_warnings(external, Identity()) == []


def test_addresses_of_balancers_are_warned_about() -> None:
    status = {"ingress": [{"ip": "010.0.0.1"}, {"hostname": "a"}]}

    (warning,) = balancer_warnings(status, "status.loadBalancer", rules_of(33).addresses)
    assert warning.startswith('status.loadBalancer.ingress[0]: non-standard IP address "010.0.0.1" is invalid')
    assert balancer_warnings(status, "status.loadBalancer", rules_of(29).addresses) == []


@pytest.mark.parametrize(
    ("hints", "mode", "expected"),
    [
        (None, "Auto", []),
        ("Auto", None, []),
        ("Auto", "Auto", []),
        ("Auto", "Disabled", ["Invalid metadata.annotations[service.kubernetes.io/topology-mode]"]),
    ],
)
def test_annotations_for_topology_aware_routing_agree(hints: str | None, mode: str | None, expected: list[str]) -> None:
    names = {"service.kubernetes.io/topology-aware-hints": hints, "service.kubernetes.io/topology-mode": mode}
    service = _service(annotations={name: value for name, value in names.items() if value is not None})

    assert _texts(validate_service(service, Identity())) == expected

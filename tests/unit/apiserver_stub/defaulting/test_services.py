"""Tests for the defaults of services."""

from __future__ import annotations

from typing import Any

import pytest

from apiserver_stub.defaulting.services import SERVICE


@pytest.mark.parametrize(
    ("spec", "added"),
    [
        ({}, {"type": "ClusterIP", "sessionAffinity": "None", "internalTrafficPolicy": "Cluster"}),
        ({"externalIPs": ["192.0.2.1"]}, {"externalTrafficPolicy": "Cluster"}),
        ({"type": "NodePort"}, {"externalTrafficPolicy": "Cluster", "internalTrafficPolicy": "Cluster"}),
        ({"type": "LoadBalancer"}, {"allocateLoadBalancerNodePorts": True}),
        ({"type": "ExternalName"}, {"sessionAffinity": "None"}),
        ({"sessionAffinity": "ClientIP"}, {"sessionAffinityConfig": {"clientIP": {"timeoutSeconds": 10800}}}),
        ({"ports": [{"port": 80, "targetPort": 0}]}, {"ports": [{"port": 80, "targetPort": 80, "protocol": "TCP"}]}),
        ({"ports": [{"port": 80, "targetPort": ""}]}, {"ports": [{"port": 80, "targetPort": 80, "protocol": "TCP"}]}),
    ],
)
def test_service_gets_defaults(spec: dict[str, Any], added: dict[str, Any]) -> None:
    service = {"spec": spec}

    SERVICE.apply(service)

    assert service["spec"].items() >= added.items()


def test_external_name_gets_no_internal_policy() -> None:
    service: dict[str, Any] = {"spec": {"type": "ExternalName"}}

    SERVICE.apply(service)

    assert service["spec"] == {"type": "ExternalName", "sessionAffinity": "None"}


def test_affinity_of_none_drops_its_configuration() -> None:
    service: dict[str, Any] = {"spec": {"sessionAffinityConfig": {"clientIP": {}}}}

    SERVICE.apply(service)

    assert "sessionAffinityConfig" not in service["spec"]

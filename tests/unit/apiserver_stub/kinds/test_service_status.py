"""Tests for gated fields and the status of services."""

from __future__ import annotations

from dataclasses import replace
from ipaddress import ip_network
from typing import Any

import pytest

from apiserver_stub.kinds.service_allocators import ServiceAllocators
from apiserver_stub.kinds.services import EARLY_SERVICE_RULES, ServiceStrategy
from nodeagent.base.identity import Identity


def strategy(**rules: Any) -> ServiceStrategy:
    addresses = ServiceAllocators([ip_network("10.0.0.0/24")], range(30000, 30010))
    return ServiceStrategy(addresses, Identity(), replace(EARLY_SERVICE_RULES, **rules))


def service(kind: str = "LoadBalancer", points: Any = None, **spec: Any) -> dict[str, Any]:
    status = {"loadBalancer": {"ingress": points} if points is not None else {}}
    return {"metadata": {"name": "s"}, "spec": {"type": kind, "ports": [{"port": 80}], **spec}, "status": status}


def points(found: dict[str, Any]) -> Any:
    return found["status"]["loadBalancer"].get("ingress")


@pytest.mark.parametrize(
    ("kind", "enabled", "given", "expected"),
    [
        ("LoadBalancer", True, {"ip": "192.0.2.1"}, {"ip": "192.0.2.1", "ipMode": "VIP"}),
        ("LoadBalancer", True, {"ip": "192.0.2.1", "ipMode": "Proxy"}, {"ip": "192.0.2.1", "ipMode": "Proxy"}),
        ("LoadBalancer", True, {"hostname": "h"}, {"hostname": "h"}),
        ("LoadBalancer", False, {"ip": "192.0.2.1"}, {"ip": "192.0.2.1"}),
        ("ClusterIP", True, {"ip": "192.0.2.1"}, {"ip": "192.0.2.1"}),
    ],
)
def test_addresses_of_balancers_have_a_mode(kind: str, given: Any, expected: Any, *, enabled: bool) -> None:
    found = service(kind, [given])

    strategy(ip_modes=enabled).default_status(found)

    assert points(found) == [expected]


MODE = {"ip": "192.0.2.1", "ipMode": "VIP"}


@pytest.mark.parametrize(
    ("enabled", "before", "is_kept"),
    [(True, [], True), (False, [MODE], True), (False, [{"ip": "x"}], False), (False, None, False)],
)
def test_disabled_modes_are_dropped_unless_stored(before: Any, *, enabled: bool, is_kept: bool) -> None:
    found = service(points=[dict(MODE)])

    strategy(ip_modes=enabled).prepare_update(found, service(points=before), "status")

    assert ("ipMode" in points(found)[0]) is is_kept


@pytest.mark.parametrize(
    ("enabled", "stored", "is_kept"), [(True, False, True), (False, True, True), (False, False, False)]
)
def test_disabled_distribution_is_dropped_unless_stored(*, enabled: bool, stored: bool, is_kept: bool) -> None:
    spec = {"trafficDistribution": "PreferClose"}
    new, created = service(**spec), service(**spec)
    rules = strategy(distributions=enabled)

    rules.prepare_update(new, service(**(spec if stored else {})), "")
    rules.prepare_create(created)

    assert ("trafficDistribution" in new["spec"], "trafficDistribution" in created["spec"]) == (is_kept, enabled)


@pytest.mark.parametrize(("kind", "is_kept"), [("LoadBalancer", True), ("ClusterIP", False)])
def test_status_of_a_balancer_is_dropped_with_its_type(kind: str, *, is_kept: bool) -> None:
    new = service(kind)

    strategy().prepare_update(new, service(points=[{"ip": "192.0.2.1"}]), "")

    assert (points(new) is not None) is is_kept


def test_status_without_a_balancer_causes_no_warnings() -> None:
    assert strategy().status_warnings({**service(), "status": {}}) == []
    assert strategy().validate_update({**service(), "status": {}}, service(), "status") == []

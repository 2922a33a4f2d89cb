"""Tests for feature gates that permit values and changes of objects."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from apiserver_stub.kinds.registry import Resource
from apiserver_stub.options import parse
from apiserver_stub.server.kinds import build_registry

Object = dict[str, Any]


def resource(plural: str, release: str, group: str = "", **gates: bool) -> Resource:
    settings = ",".join(f"{name}={str(value).lower()}" for name, value in gates.items())
    options = [f"--compatibility-version={release}", *([f"--feature-gates={settings}"] if settings else [])]
    found = build_registry(parse(options)).find(group, "v1", plural)
    assert found is not None
    return found


@pytest.mark.parametrize("relaxed", [True, False])
def test_service_name_may_start_with_a_digit(relaxed: bool) -> None:
    gate = {"RelaxedServiceNameValidation": relaxed}
    services = resource("services", "1.36", **gate)
    ingresses = resource("ingresses", "1.36", "networking.k8s.io", **gate)
    backend = {"service": {"name": "1-test", "port": {"number": 80}}}
    ingress: Object = {"metadata": {"name": "i"}, "spec": {"defaultBackend": backend}}

    errors = ingresses.strategy.validate(ingress)

    assert bool(services.name_problems("1-test")) is not relaxed
    assert services.name_problems("A")
    assert [error.field for error in errors] == ([] if relaxed else ["spec.defaultBackend.service.name"])
    assert ingresses.strategy.validate_update(ingress, ingress, "") == errors


@pytest.mark.parametrize("allowed", [True, False])
def test_service_of_any_type_may_have_balancer_addresses(allowed: bool) -> None:
    strategy = resource("services", "1.30", AllowServiceLBStatusOnNonLB=allowed).strategy
    old: Object = {"metadata": {"name": "s"}, "spec": {"type": "ClusterIP"}, "status": {"loadBalancer": {}}}
    new = {**old, "status": {"loadBalancer": {"ingress": [{"ip": "192.0.2.1", "ipMode": "VIP"}]}}}

    errors = strategy.validate_update(new, old, "status")

    assert [error.field for error in errors] == ([] if allowed else ["status.loadBalancer.ingress"])


@pytest.mark.parametrize("mutable", [True, False])
def test_node_affinity_of_volumes_may_change(mutable: bool) -> None:
    strategy = resource("persistentvolumes", "1.35", MutablePVNodeAffinity=mutable).strategy

    def volume(zone: str) -> Object:
        term = {"matchExpressions": [{"key": "zone", "operator": "In", "values": [zone]}]}
        spec = {
            "capacity": {"storage": "1Gi"},
            "accessModes": ["ReadWriteOnce"],
            "csi": {"driver": "csi.example.com", "volumeHandle": "v"},
            "nodeAffinity": {"required": {"nodeSelectorTerms": [term]}},
        }
        found: Object = {"metadata": {"name": "v"}, "spec": spec}
        strategy.default(found)
        return found

    errors = strategy.validate_update(volume("b"), volume("a"), "")

    assert [error.field for error in errors] == ([] if mutable else ["nodeAffinity"])


# Suspended Jobs.

SUSPENDED = {"conditions": [{"type": "Suspended", "status": "True"}], "startTime": "2026-01-01T00:00:00Z"}
STARTED = {"startTime": "2026-01-01T00:00:00Z"}


def job(strategy: Any, suspended: bool, **spec: Any) -> Object:
    container = {"name": "c", "image": "i", "resources": spec.pop("resources", {})}
    template = {"spec": {"restartPolicy": "Never", "containers": [container], **spec}}
    found: Object = {"metadata": {"name": "a", "uid": "u"}, "spec": {"suspend": suspended, "template": template}}
    strategy.default(found)
    strategy.prepare_create(found)
    return found


@pytest.mark.parametrize(
    ("suspended", "status", "permitted"),
    [
        (True, {}, True),
        (True, SUSPENDED, True),
        (True, {**SUSPENDED, "active": 1}, False),
        (True, STARTED, False),
        (False, {}, False),
    ],
)
@pytest.mark.parametrize("enabled", [True, False])
def test_resources_of_suspended_jobs_may_change(
    suspended: bool, status: Object, permitted: bool, enabled: bool
) -> None:
    strategy = resource("jobs", "1.35", "batch", MutablePodResourcesForSuspendedJobs=enabled).strategy
    old = {**job(strategy, suspended), "status": status}
    new = {**job(strategy, suspended, resources={"requests": {"cpu": "1"}}), "status": status}

    errors = strategy.validate_update(new, copy.deepcopy(old), "")

    assert [error.field for error in errors] == ([] if permitted and enabled else ["spec.template"])


@pytest.mark.parametrize("enabled", [True, False])
def test_scheduling_of_jobs_may_change_after_they_were_started(enabled: bool) -> None:
    strategy = resource("jobs", "1.35", "batch", MutableSchedulingDirectivesForSuspendedJobs=enabled).strategy
    old, new = job(strategy, True), job(strategy, True, nodeSelector={"zone": "b"})

    never_started = strategy.validate_update(new, old, "")
    stopped = strategy.validate_update({**new, "status": SUSPENDED}, {**old, "status": SUSPENDED}, "")

    assert never_started == []
    assert [error.field for error in stopped] == ([] if enabled else ["spec.template"])

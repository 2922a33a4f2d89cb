"""Tests for the validation of the status of pods."""

from __future__ import annotations

from typing import Any

import pytest

from apiserver_stub.feature_gates import build_gates
from apiserver_stub.kinds.pods import pod_options
from apiserver_stub.validation.pod_options import PodOptions
from apiserver_stub.validation.pod_status import validate_pod_status
from nodeagent.base.identity import Identity
from nodeagent.base.release import Release
from tests.unit.apiserver_stub.validation.pods import found, pod


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        ({"conditions": [{"type": "Ready"}, {"type": "a b"}]}, ["Invalid metadata.conditions[1].Type"]),
        ({"nominatedNodeName": "A"}, ["Invalid status.nominatedNodeName"]),
        ({"podIPs": [{"ip": "10.0.0.1"}, {"ip": "fd00::1"}]}, []),
        ({"podIPs": [{"ip": "10.0.0.1"}, {"ip": "10.0.0.1"}]}, ["Invalid status.podIPs", "Duplicate status.podIPs[1]"]),
        ({"podIPs": [{"ip": "a"}]}, ["Invalid status.podIPs[0]"]),
        ({"podIPs": [{}]}, ["Invalid status.podIPs[0]"]),
        ({"hostIP": "10.0.0.1", "hostIPs": [{"ip": "10.0.0.2"}]}, ["Invalid status.hostIPs[0].ip"]),
        ({"resourceClaimStatuses": [{"name": "a"}]}, ["Invalid status.resourceClaimStatuses[0].name"]),
    ],
)
def test_fields_of_the_status(status: dict[str, Any], expected: list[str]) -> None:
    old = pod()

    assert found(validate_pod_status({**old, "status": status}, old, PodOptions(Identity()))) == expected


def test_unchanged_nominated_node_is_not_validated() -> None:
    old = pod()
    old["status"]["nominatedNodeName"] = "A"

    assert found(validate_pod_status({**old, "status": dict(old["status"])}, old, PodOptions(Identity()))) == []


@pytest.mark.parametrize(
    ("policy", "code", "count"),
    [("Always", 0, 0), ("OnFailure", 1, 0), ("OnFailure", 0, 1), ("Never", 1, 1)],
)
def test_ended_container_runs_again_only_if_restarted(policy: str, code: int, count: int) -> None:
    old = pod(restartPolicy=policy)
    old["status"]["containerStatuses"] = [{"name": "web", "state": {"terminated": {"exitCode": code}}}]
    new = {**old, "status": {"containerStatuses": [{"name": "web", "state": {"running": {}}}]}}

    causes = validate_pod_status(new, old, PodOptions(Identity()))

    assert found(causes) == ["Forbidden status.containerStatuses[0].state"] * count


def test_container_that_stays_ended_is_valid() -> None:
    ended = {"terminated": {"exitCode": 0}}
    old = pod(restartPolicy="Never")
    old["status"]["containerStatuses"] = [{"name": "web", "state": ended}, {"name": "b", "state": {"running": {}}}]
    new = {**old, "status": {"containerStatuses": [{"name": "b"}, {"name": "web", "state": ended}]}}

    assert validate_pod_status(new, old, PodOptions(Identity())) == []


def test_sidecar_runs_again() -> None:
    old = pod(restartPolicy="Never", initContainers=[{"name": "i", "image": "i", "restartPolicy": "Always"}])
    old["status"]["initContainerStatuses"] = [{"name": "i", "state": {"terminated": {"exitCode": 0}}}]
    new = {**old, "status": {"initContainerStatuses": [{"name": "i", "state": {}}]}}

    assert validate_pod_status(new, old, PodOptions(Identity())) == []


RULE = {"action": "Restart", "exitCodes": {"operator": "In", "values": [42]}}
BY_RULES = PodOptions(Identity(), features=frozenset(["ContainerRestartRules"]))


@pytest.mark.parametrize(
    ("fields", "code", "count"),
    [
        ({}, 1, 1),
        ({"restartPolicy": "Always"}, 0, 0),
        ({"restartPolicy": "OnFailure"}, 1, 0),
        ({"restartPolicy": "OnFailure"}, 0, 1),
        ({"restartPolicy": "Never", "restartPolicyRules": [RULE]}, 42, 0),
        ({"restartPolicy": "Never", "restartPolicyRules": [RULE]}, 1, 1),
    ],
)
def test_ended_container_runs_again_by_its_own_policy(fields: dict[str, Any], code: int, count: int) -> None:
    old = pod(restartPolicy="Never", containers=[{"name": "web", "image": "web:1", **fields}])
    old["status"]["containerStatuses"] = [{"name": "web", "state": {"terminated": {"exitCode": code}}}]
    new = {**old, "status": {"containerStatuses": [{"name": "web", "state": {"running": {}}}]}}

    assert found(validate_pod_status(new, old, BY_RULES)) == ["Forbidden status.containerStatuses[0].state"] * count


def test_rule_that_restarts_all_containers_allows_every_restart() -> None:
    rule = {**RULE, "action": "RestartAllContainers"}
    watcher = {"name": "w", "image": "w", "restartPolicy": "Never", "restartPolicyRules": [rule]}
    old = pod(restartPolicy="Never", containers=[{"name": "web", "image": "web:1"}, watcher])
    old["status"]["containerStatuses"] = [{"name": "web", "state": {"terminated": {"exitCode": 0}}}]
    new = {**old, "status": {"containerStatuses": [{"name": "web", "state": {}}]}}
    features = BY_RULES.features | {"RestartAllContainersOnContainerExits"}

    assert found(validate_pod_status(new, old, BY_RULES)) == ["Forbidden status.containerStatuses[0].state"]
    assert validate_pod_status(new, old, PodOptions(Identity(), features=features)) == []


DOUBLE = {"hostIP": "10.0.0.1", "hostIPs": [{"ip": "10.0.0.1"}, {"ip": "10.0.0.1"}]}
MAPPING = {"containerName": "no", "requestName": "a", "resourceName": "b"}
CLAIM = {"resourceClaimName": "x", "requestMappings": [MAPPING]}
CLAIM_FIELD = "status.extendedResourceClaimStatus"


@pytest.mark.parametrize(
    ("status", "release", "expected"),
    [
        ({"conditions": [{"type": "a b"}]}, 33, ["Invalid status.conditions[0].Type"]),
        ({"conditions": [{"type": "a", "observedGeneration": -1}]}, 32, []),
        (
            {"conditions": [{"type": "a", "observedGeneration": -1}]},
            33,
            ["Invalid status.conditions[0].observedGeneration"],
        ),
        ({"nominatedNodeName": "n2"}, 34, []),
        ({"nominatedNodeName": "n2"}, 35, ["Forbidden status.nominatedNodeName"]),
        (DOUBLE, 33, ["Invalid status.hostIPs", "Duplicate status.hostIPs[1]"]),
        (DOUBLE, 34, ["Invalid status.hostIPs"]),
        ({"podIPs": [{"ip": "010.0.0.1"}]}, 35, []),
        ({"podIPs": [{"ip": "010.0.0.1"}]}, 36, ["Invalid status.podIPs[0]"]),
        ({"extendedResourceClaimStatus": CLAIM}, 36, [f"Invalid {CLAIM_FIELD}.requestMappings[0].containerName"]),
        (
            {"extendedResourceClaimStatus": {}},
            36,
            [f"Required {CLAIM_FIELD}.requestMappings", f"Required {CLAIM_FIELD}.resourceClaimName"],
        ),
    ],
)
def test_rules_of_the_status_depend_on_the_release(status: dict[str, Any], release: int, expected: list[str]) -> None:
    at = Release(1, release)
    options = pod_options(build_gates({}, at), Identity(), allow_privileged=True, release=at)
    old = pod(nodeName="n1")

    assert found(validate_pod_status({**old, "status": status}, old, options)) == expected


@pytest.mark.parametrize(("stored", "expected"), [("010.0.0.1", []), ("10.0.0.1", ["Invalid status.podIPs[0]"])])
def test_stored_address_stays_valid(stored: str, expected: list[str]) -> None:
    at = Release(1, 36)
    options = pod_options(build_gates({}, at), Identity(), allow_privileged=True, release=at)
    old = pod(nodeName="n1")
    old["status"]["podIPs"] = [{"ip": stored}]

    assert found(validate_pod_status({**old, "status": {"podIPs": [{"ip": "010.0.0.1"}]}}, old, options)) == expected


def test_health_is_reported_for_requested_resources_only() -> None:
    options = PodOptions(Identity(), release=Release(1, 36))
    old = pod(containers=[{"name": "web", "image": "i", "resources": {"claims": [{"name": "gpu", "request": "a"}]}}])
    healthy = {"resourceID": "1", "health": "Healthy"}
    reported = [
        {"name": "claim:gpu/a", "resources": [healthy, {**healthy, "health": "Fine", "message": ""}]},
        {"name": "claim:gpu"},
    ]
    status = {"containerStatuses": [{"name": "web", "allocatedResourcesStatus": reported}]}

    field = "status.containerStatuses[0].allocatedResourcesStatus"
    assert found(validate_pod_status({**old, "status": status}, old, options)) == [
        f"NotSupported {field}[0].resources[1].health",
        f"Required {field}[0].resources[1].message",
        f"Duplicate {field}[0].resources[1].resourceID",
        f"Invalid {field}[1].name",
    ]

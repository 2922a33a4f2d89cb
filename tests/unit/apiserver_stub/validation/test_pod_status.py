"""Tests for the validation of the status of pods."""

from __future__ import annotations

from typing import Any

import pytest

from apiserver_stub.validation.pod_options import PodOptions
from apiserver_stub.validation.pod_status import validate_pod_status
from nodeagent.base.identity import Identity
from tests.unit.apiserver_stub.validation.pods import found, pod


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        ({"conditions": [{"type": "Ready"}, {"type": "a b"}]}, ["Invalid metadata.conditions[1].Type"]),
        ({"nominatedNodeName": "A"}, ["Invalid status.nominatedNodeName"]),
        ({"podIPs": [{"ip": "10.0.0.1"}, {"ip": "fd00::1"}]}, []),
        ({"podIPs": [{"ip": "10.0.0.1"}, {"ip": "10.0.0.1"}]}, ["Invalid status.podIPs", "Duplicate status.podIPs[1]"]),
        ({"podIPs": [{"ip": "a"}]}, ["Invalid status.podIPs[0]"]),
        ({"hostIP": "10.0.0.1", "hostIPs": [{"ip": "10.0.0.2"}]}, ["Invalid status.hostIPs[0].ip"]),
        ({"resourceClaimStatuses": [{"name": "a"}]}, ["Invalid status.resourceClaimStatuses[0].name"]),
    ],
)
def test_fields_of_the_status(status: dict[str, Any], expected: list[str]) -> None:
    old = pod()

    assert found(validate_pod_status({**old, "status": status}, old, PodOptions(Identity()))) == expected


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

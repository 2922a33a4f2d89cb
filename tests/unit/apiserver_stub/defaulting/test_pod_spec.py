"""Tests for the defaults of pods."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from apiserver_stub.defaulting.pod_spec import POD, POD_SPEC, POD_STATUS, drop_annotations, init_annotations
from nodeagent.base.identity import Identity
from tests.unit.apiserver_stub.validation.pods import container, pod


def test_defaults_of_the_spec() -> None:
    spec = pod(restartPolicy="", terminationGracePeriodSeconds=-5, serviceAccount="robot")["spec"]

    assert spec["restartPolicy"] == "Always"
    assert spec["terminationGracePeriodSeconds"] == 1
    assert (spec["serviceAccountName"], spec["enableServiceLinks"]) == ("robot", True)


def test_defaults_of_a_container() -> None:
    variable = {"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}
    hook = {"httpGet": {"port": 80}}
    made = pod(
        hostNetwork=True,
        containers=[
            container(
                ports=[{"containerPort": 80}],
                env=[variable],
                readinessProbe={"grpc": {"port": 1}, "successThreshold": 0},
                lifecycle={"preStop": hook},
                resources={"limits": {"cpu": "1.0005"}},
            )
        ],
    )["spec"]["containers"][0]

    assert made["ports"] == [{"containerPort": 80, "protocol": "TCP", "hostPort": 80}]
    assert made["env"][0]["valueFrom"]["fieldRef"]["apiVersion"] == "v1"
    assert made["readinessProbe"]["grpc"] == {"port": 1, "service": ""}
    assert made["readinessProbe"]["successThreshold"] == 1
    assert made["lifecycle"]["preStop"]["httpGet"]["path"] == "/"
    assert made["resources"] == {"limits": {"cpu": "1001m"}, "requests": {"cpu": "1001m"}}


@pytest.mark.parametrize(
    ("volume", "expected"),
    [
        ({"name": "a"}, {"emptyDir": {}}),
        ({"name": "a", "secret": {"secretName": "s"}}, {"secret": {"secretName": "s", "defaultMode": 420}}),
        ({"name": "a", "hostPath": {"path": "/"}}, {"hostPath": {"path": "/", "type": ""}}),
        (
            {"name": "a", "projected": {"sources": [{"serviceAccountToken": {"path": "t"}}]}},
            {
                "projected": {
                    "defaultMode": 420,
                    "sources": [{"serviceAccountToken": {"path": "t", "expirationSeconds": 3600}}],
                }
            },
        ),
        (
            {"name": "a", "azureDisk": {"diskName": "d", "diskURI": "u"}},
            {
                "azureDisk": {
                    "diskName": "d",
                    "diskURI": "u",
                    "cachingMode": "ReadWrite",
                    "kind": "Shared",
                    "fsType": "ext4",
                    "readOnly": False,
                }
            },
        ),
    ],
)
def test_defaults_of_volumes(volume: dict[str, Any], expected: dict[str, Any]) -> None:
    assert pod(volumes=[volume])["spec"]["volumes"] == [{"name": "a", **expected}]


def test_template_leaves_requests_and_host_ports_to_its_pods() -> None:
    ports = [{"containerPort": 80}]
    spec: dict[str, Any] = {
        "hostNetwork": True,
        "containers": [container(resources={"limits": {"cpu": "1"}}, ports=ports)],
    }

    POD_SPEC.apply(spec)

    made = spec["containers"][0]
    assert made["resources"] == {"limits": {"cpu": "1"}}
    assert made["ports"] == [{"containerPort": 80, "protocol": "TCP"}]
    assert "enableServiceLinks" not in spec


def test_defaults_are_idempotent() -> None:
    once = pod(volumes=[{"name": "e"}])
    twice = copy.deepcopy(once)

    POD.apply(twice)

    assert twice == once


def test_old_init_container_annotations_are_dropped() -> None:
    metadata = {"annotations": {"pod.beta.kubernetes.io/init-containers": "[]", "a": "b"}}

    drop_annotations(metadata, init_annotations(Identity()))

    assert metadata == {"annotations": {"a": "b"}}


@pytest.mark.parametrize(
    ("status", "address", "addresses"),
    [
        ({"podIP": "10.0.0.1"}, "10.0.0.1", ["10.0.0.1"]),
        ({"podIPs": [{"ip": "10.0.0.1"}, {"ip": "fd00::1"}]}, "10.0.0.1", ["10.0.0.1", "fd00::1"]),
        ({"podIP": "10.0.0.2", "podIPs": [{"ip": "10.0.0.1"}]}, "10.0.0.2", ["10.0.0.2"]),
    ],
)
def test_single_address_has_precedence(status: dict[str, Any], address: str, addresses: list[str]) -> None:
    POD_STATUS.apply(status)

    assert status["podIP"] == address
    assert [item["ip"] for item in status["podIPs"]] == addresses

"""Tests for the rules that updates of stored pods are exempt from."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import pytest

from apiserver_stub.validation.pod_exemptions import options_for_update
from apiserver_stub.validation.pod_options import PodOptions
from nodeagent.base.identity import Identity
from tests.unit.apiserver_stub.validation.pods import container, pod

OPTIONS = PodOptions(is_pod=True, allow_host_ips=False, identity=Identity())
HOST_IPS = {"fieldRef": {"fieldPath": "status.hostIPs"}}
COST = "controller.kubernetes.io/pod-deletion-cost"


def exempt(spec: dict[str, Any], metadata: dict[str, Any] | None = None) -> set[str]:
    """Return the options that differ for an update of a stored pod."""
    stored = pod(metadata=metadata, **spec)
    found = options_for_update(OPTIONS, stored["metadata"], stored["spec"])
    return {
        name for name in (field.name for field in fields(OPTIONS)) if getattr(found, name) != getattr(OPTIONS, name)
    }


def pages(text: str, kind: str = "containers", name: str = "hugepages-2Mi") -> dict[str, Any]:
    return {kind: [container(resources={"limits": {name: text}})]}


def token(path: str) -> dict[str, Any]:
    return {"volumes": [{"name": "v", "projected": {"sources": [{"serviceAccountToken": {"path": path}}]}}]}


def spread(value: str) -> dict[str, Any]:
    item = {"topologyKey": "zone", "labelSelector": {"matchLabels": {"a": value}}}
    return {"topologySpreadConstraints": [item]}


def nodes(value: str) -> dict[str, Any]:
    term = {"matchExpressions": [{"key": "a", "operator": "In", "values": [value]}]}
    required = {"nodeSelectorTerms": [term]}
    return {"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}}


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({}, set()),
        (pages("4Mi"), set()),
        (pages("3Mi"), {"any_huge_pages"}),
        (pages("3Mi", "initContainers"), {"any_huge_pages"}),
        ({"overhead": {"hugepages-2Mi": "3Mi"}}, {"any_huge_pages"}),
        (pages("3Mi", name="memory"), set()),
        (token("a"), set()),
        (token("../a"), {"any_token_paths"}),
        (spread("b"), set()),
        (spread("b c"), {"any_spread_selectors"}),
        (nodes("b"), set()),
        (nodes("b c"), {"any_node_values"}),
        ({"volumes": [{"name": "v", "downwardAPI": {"items": [HOST_IPS]}}]}, {"allow_host_ips"}),
        ({"containers": [container(env=[{"name": "a", "valueFrom": HOST_IPS}])]}, {"allow_host_ips"}),
        ({"initContainers": [container(env=[{"name": "a", "valueFrom": HOST_IPS}])]}, {"allow_host_ips"}),
    ],
)
def test_stored_pod_is_exempt_from_the_rule_that_it_breaks(spec: dict[str, Any], expected: set[str]) -> None:
    assert exempt(spec) == expected


@pytest.mark.parametrize(("cost", "expected"), [("1", set()), ("x", {"any_deletion_cost"})])
def test_invalid_deletion_cost_may_stay(cost: str, expected: set[str]) -> None:
    assert exempt({}, {"annotations": {COST: cost}}) == expected


@pytest.mark.parametrize(
    ("host", "sysctl", "expected"),
    [
        ({}, "net.a", set()),
        ({"hostNetwork": True}, "net.a", {"any_sysctls"}),
        ({"hostNetwork": True}, "kernel.shm_rmid_forced", set()),
        ({"hostIPC": True}, "kernel.shm_rmid_forced", {"any_sysctls"}),
        ({"hostIPC": True}, "net.a", set()),
    ],
)
def test_sysctl_of_a_host_namespace_may_stay(host: dict[str, Any], sysctl: str, expected: set[str]) -> None:
    assert exempt({**host, "securityContext": {"sysctls": [{"name": sysctl, "value": "1"}]}}) == expected

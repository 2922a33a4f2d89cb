"""Tests for the downward API."""

from __future__ import annotations

from typing import Any

import pytest

from nodeagent.model.downward import metadata_value, resource_value
from nodeagent.model.pod import ResourceFieldSelector
from nodeagent.testing import make_container, make_pod

RESOURCES: dict[str, Any] = {
    "limits": {"cpu": "1500m", "memory": "0", "hugepages-2Mi": "4Mi"},
    "requests": {"memory": "1000", "example.com/thing": "1"},
}
MAIN = make_container("main", resources=RESOURCES)
POD = make_pod("web", containers=[MAIN], labels={"app": "shop"})


def allocatable() -> dict[str, Any]:
    return {"cpu": "4", "memory": "8Gi", "ephemeral-storage": 1000}


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("metadata.name", "web"),
        ("metadata.namespace", "default"),
        ("metadata.labels['app']", "shop"),
        ("metadata.annotations['app']", ""),
        ("metadata.labels", None),
        ("spec.nodeName", None),
    ],
)
def test_metadata_value(path: str, value: str | None) -> None:
    assert metadata_value(POD, path) == value


@pytest.mark.parametrize(
    ("resource", "divisor", "value"),
    [
        ("limits.cpu", "0", "2"),
        ("limits.cpu", "1m", "1500"),
        ("requests.cpu", "1", "0"),
        ("limits.memory", "1Mi", "8192"),
        ("limits.ephemeral-storage", "1k", "1"),
        ("requests.memory", "1Ki", "1"),
        ("limits.hugepages-2Mi", "1Mi", "4"),
    ],
)
def test_resource_is_rounded_up_and_missing_limit_is_the_nodes(resource: str, divisor: str, value: str) -> None:
    named = ResourceFieldSelector(resource=resource, container_name="main", divisor=divisor)
    own = ResourceFieldSelector(resource=resource, divisor=divisor)
    assert resource_value(POD, named, allocatable) == resource_value(POD, own, allocatable, MAIN) == value


@pytest.mark.parametrize(
    ("selector", "problem"),
    [
        (ResourceFieldSelector(resource="limits.cpu", container_name="other"), "container other not found"),
        (ResourceFieldSelector(resource="requests.example.com/thing"), "unsupported container resource"),
        (ResourceFieldSelector(resource="used.cpu"), "unsupported container resource: used.cpu"),
        (ResourceFieldSelector(resource="limits.cpu", divisor="x"), "resource limits.cpu: "),
    ],
)
def test_invalid_resource_field_is_rejected(selector: ResourceFieldSelector, problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        resource_value(POD, selector, allocatable, MAIN)


def test_limit_of_the_pod_replaces_a_missing_limit():
    pod = make_pod("web", containers=[MAIN], resources={"limits": {"memory": "2Gi"}})

    assert resource_value(pod, ResourceFieldSelector(resource="limits.memory"), allocatable, MAIN) == str(2 * 1024**3)

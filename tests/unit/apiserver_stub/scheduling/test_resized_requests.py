"""Tests for the requests of pods that are being resized."""

from __future__ import annotations

from typing import Any

import pytest

from apiserver_stub.scheduling.resized_requests import with_reserved_requests


def requests(cpu: str, **status: Any) -> Any:
    """Return the cpu that is reserved for a container that requests *cpu*."""
    spec = {"containers": [{"name": "main", "resources": {"requests": {"cpu": cpu}}}]}
    container = with_reserved_requests(spec, status)["containers"][0]
    return container["resources"]["requests"]["cpu"]


def reported(actuated: str, granted: str) -> list[dict[str, Any]]:
    resources = {"requests": {"cpu": actuated}}
    return [{"name": "main", "resources": resources, "allocatedResources": {"cpu": granted}}]


@pytest.mark.parametrize(
    ("cpu", "actuated", "granted", "expected"),
    [("1", "2", "1", "2"), ("3", "1", "1", "3"), ("1", "1", "2", "2")],
)
def test_highest_request_is_reserved(cpu: str, actuated: str, granted: str, expected: str) -> None:
    assert requests(cpu, containerStatuses=reported(actuated, granted)) == expected


def test_infeasible_resize_reserves_nothing_more() -> None:
    pending = [{"type": "PodResizePending", "reason": "Infeasible"}]

    assert requests("9", containerStatuses=reported("1", "1"), conditions=pending) == "1"


def test_container_without_reported_resources_reserves_its_request() -> None:
    assert requests("1", containerStatuses=[{"name": "main"}]) == "1"


def test_highest_pod_level_request_is_reserved() -> None:
    spec = {"containers": [], "resources": {"requests": {"cpu": "1"}}}
    status = {"resources": {"requests": {"cpu": "2"}}, "allocatedResources": {"cpu": "1"}}

    assert with_reserved_requests(spec, status)["resources"]["requests"] == {"cpu": "2"}


@pytest.mark.parametrize(("policy", "cpu"), [("Always", "2"), (None, "1")])
def test_requests_of_sidecars_only_are_reserved_among_init_containers(policy: str | None, cpu: str) -> None:
    container = {"name": "main", "resources": {"requests": {"cpu": "1"}}}
    spec = {"initContainers": [{**container, **({"restartPolicy": policy} if policy else {})}], "containers": []}

    found = with_reserved_requests(spec, {"initContainerStatuses": reported("2", "1")})

    assert found["initContainers"][0]["resources"]["requests"]["cpu"] == cpu

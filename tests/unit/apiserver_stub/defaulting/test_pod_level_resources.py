"""Tests for the defaults of pod-level resources."""

from __future__ import annotations

from typing import Any

import pytest

from apiserver_stub.defaulting.pod_level_resources import default_pod_level_resources

HUGE = "hugepages-2Mi"


def defaulted(resources: Any, **container: dict[str, str]) -> Any:
    spec: dict[str, Any] = {"containers": [{"name": "c", "resources": container}]}
    if resources is not None:
        spec["resources"] = resources
    default_pod_level_resources(spec)
    return spec.get("resources")


@pytest.mark.parametrize("resources", [None, {}, {"requests": {}}, {"requests": {}, "limits": {}}])
def test_pods_without_own_resources_get_none(resources: Any) -> None:
    limits = {"cpu": "1", HUGE: "4Mi"}

    assert defaulted(resources, limits=limits, requests=limits) == resources


@pytest.mark.parametrize(
    ("resources", "container", "expected"),
    [
        pytest.param({"limits": {"cpu": "2"}}, {}, {"requests": {"cpu": "2"}, "limits": {"cpu": "2"}}, id="limit"),
        pytest.param(
            {"limits": {"cpu": "2"}},
            {"requests": {"cpu": "500m", "memory": "1Mi", "example.com/gpu": "1"}},
            {"requests": {"cpu": "500m", "memory": "1Mi"}, "limits": {"cpu": "2"}},
            id="requests of containers",
        ),
        pytest.param(
            {"requests": {"cpu": "1"}},
            {"requests": {"memory": "1Mi"}},
            {"requests": {"cpu": "1"}},
            id="only requests",
        ),
        pytest.param(
            {"requests": {"cpu": "1"}},
            {"limits": {HUGE: "4Mi", "memory": "1Mi"}},
            {"requests": {"cpu": "1", HUGE: "4Mi"}, "limits": {HUGE: "4Mi"}},
            id="huge pages",
        ),
        pytest.param(
            {"requests": {HUGE: "2Mi"}},
            {"limits": {HUGE: "4Mi"}},
            {"requests": {HUGE: "2Mi"}},
            id="requested huge pages",
        ),
    ],
)
def test_missing_amounts_are_those_of_the_containers_or_the_limit(
    resources: Any, container: dict[str, Any], expected: Any
) -> None:
    assert defaulted(resources, **container) == expected

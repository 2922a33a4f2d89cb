"""Tests for the resources of a static pod as a whole."""

from __future__ import annotations

import pytest

from nodeagent.model.pod_level_resources import with_pod_level_requests
from nodeagent.model.pod_validation import validate_pod
from nodeagent.testing import make_container, make_pod


def pod(own, **container):
    return make_pod(containers=[make_container(**container)], resources=own)


@pytest.mark.parametrize(
    ("resources", "requests"),
    [
        ({"limits": {"cpu": "2"}}, {"cpu": "1"}),
        ({"limits": {"memory": "1Gi"}}, {"memory": "1Gi", "cpu": "1"}),
        ({"limits": {"cpu": "2"}, "requests": {"cpu": "1500m"}}, {"cpu": "1500m"}),
        ({"requests": {"memory": "1Gi"}}, {"memory": "1Gi"}),
        ({"limits": {"cpu": "x"}}, {"cpu": "1"}),
    ],
)
def test_missing_requests_are_those_of_the_containers_or_the_limits(resources, requests):
    found = with_pod_level_requests(pod(resources, resources={"requests": {"cpu": "1"}}))

    assert found.spec.resources.requests == requests


def test_pod_without_own_resources_is_unchanged():
    assert with_pod_level_requests(make_pod()) == make_pod()


@pytest.mark.parametrize(
    ("resources", "where"),
    [
        ({"limits": {"ephemeral-storage": "1Gi"}}, "spec.resources.limits"),
        ({"limits": {"cpu": "x"}}, "spec.resources.limits[cpu]"),
        ({"claims": [{"name": "gpu"}]}, "spec.resources.claims"),
        ({"limits": {"cpu": "2"}, "requests": {"cpu": "3"}}, "spec.resources.requests[cpu]"),
        ({"requests": {"cpu": "500m"}}, "spec.resources.requests[cpu]"),
        ({"limits": {"cpu": "1"}}, "spec.containers[0].resources.limits[cpu]"),
    ],
)
def test_problem_names_the_invalid_field(resources, where):
    container = {"resources": {"requests": {"cpu": "1"}, "limits": {"cpu": "1500m"}}}

    assert [problem.path for problem in validate_pod(pod(resources, **container))] == [where]


def test_containers_within_the_resources_of_the_pod_are_valid():
    assert validate_pod(pod({"limits": {"cpu": "2"}, "requests": {"cpu": "1"}})) == []


def test_containers_may_use_all_resources_of_the_pod():
    equal = {"requests": {"cpu": "1"}, "limits": {"cpu": "1"}}
    assert validate_pod(pod(equal, resources=equal)) == []
    init = make_container("init", resources={"limits": {"cpu": "1001m"}})
    found = validate_pod(make_pod(containers=[make_container()], init_containers=[init], resources=equal))
    assert [problem.path for problem in found if "limits" in problem.path] == [
        "spec.initContainers[0].resources.limits[cpu]"
    ]

"""Tests for the effective requests and limits of pods."""

from __future__ import annotations

import pytest

from nodeagent.model.resources import effective_limits, limited_everywhere, pod_limits, pod_requests
from nodeagent.testing import make_container, make_pod


def container(name, cpu, *, sidecar=False, limit=None):
    resources = {"requests": {"cpu": cpu}, "limits": {"cpu": limit} if limit else {}}
    return make_container(name, resources=resources, restart_policy="Always" if sidecar else None)


def cpu(amounts):
    return amounts["cpu"].milli_value()


@pytest.mark.parametrize(
    ("init", "regular", "expected"),
    [
        ([], [container("a", "100m"), container("b", 1)], 1100),
        ([container("i", "2")], [container("a", "100m")], 2000),
        ([container("i", "50m"), container("j", "60m")], [container("a", "100m")], 100),
        ([container("s", "300m", sidecar=True)], [container("a", "100m")], 400),
        ([container("s", "300m", sidecar=True), container("i", "1")], [container("a", "100m")], 1300),
        ([container("i", "1"), container("s", "300m", sidecar=True)], [container("a", "100m")], 1000),
    ],
)
def test_requests_of_a_pod(init, regular, expected):
    assert cpu(pod_requests(make_pod(init_containers=init, containers=regular))) == expected


def test_overhead_is_added_to_requests_and_existing_limits():
    pod = make_pod(containers=[container("a", "100m", limit="200m")], overhead={"cpu": "50m", "memory": "10Mi"})

    assert cpu(pod_requests(pod)) == 150
    assert pod_requests(pod)["memory"].value() == 10 * 1024**2
    assert cpu(pod_limits(pod)) == 250
    assert "memory" not in pod_limits(pod)


def test_resource_is_limited_if_every_container_limits_it():
    assert limited_everywhere(make_pod(containers=[container("a", 1, limit=1)]), "cpu")
    assert not limited_everywhere(make_pod(containers=[container("a", 1, limit=1), container("b", 1)]), "cpu")
    assert not limited_everywhere(make_pod(containers=[container("a", 1, limit=0)]), "cpu")


# --- pod-level resources ----------------------------------------------------------------------------------------------


def with_own(requests=None, limits=None, *containers, **spec):
    resources = {"requests": requests or {}, "limits": limits or {}}
    return make_pod(containers=containers or [container("a", "100m", limit="200m")], resources=resources, **spec)


def test_resources_of_a_pod_replace_those_of_its_containers():
    pod = with_own({"cpu": "1"}, {"cpu": "2", "hugepages-2Mi": "4Mi"}, overhead={"cpu": "50m"})

    assert cpu(pod_requests(pod)) == 1050
    assert cpu(pod_limits(pod)) == 2050
    assert pod_limits(pod)["hugepages-2Mi"].value() == 4 * 1024**2


def test_other_resources_of_a_pod_are_those_of_its_containers():
    pod = with_own({"memory": "1Gi", "example.com/gpu": "1"})

    assert cpu(pod_requests(pod)) == 100
    assert "example.com/gpu" not in pod_requests(pod)


def test_limit_of_a_pod_applies_to_containers_without_one():
    limited, unlimited = container("a", "100m", limit="200m"), container("b", "100m")
    pod = with_own(None, {"cpu": "2", "memory": "1Gi"}, limited, unlimited)

    assert cpu(effective_limits(pod, limited)) == 200
    assert cpu(effective_limits(pod, unlimited)) == 2000
    assert effective_limits(pod, limited)["memory"].value() == 1024**3


def test_limit_of_a_pod_is_effective_without_limits_of_its_containers():
    assert limited_everywhere(with_own(None, {"cpu": "2"}, container("b", "100m")), "cpu")
    assert not limited_everywhere(with_own({"cpu": "2"}, None, container("b", "100m")), "cpu")

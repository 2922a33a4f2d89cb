"""Tests for the LimitRanger admission plugin."""

from __future__ import annotations

from apiserver_stub.admission.plugins.limit_ranger import _check_pod, _fill


def test_limit_request_ratio_is_enforced():
    container = {"name": "c", "resources": {"requests": {"cpu": "100m"}, "limits": {"cpu": "250m"}}}
    limits = [{"type": "Container", "maxLimitRequestRatio": {"cpu": "2"}, "min": {"cpu": "200m"}}]

    assert list(_check_pod({"containers": [container]}, limits)) == [
        "minimum cpu usage per Container is 200m, but request is 100m",
        "cpu max limit to request ratio per Container is 2, but provided ratio is 2.500000",
    ]


def test_only_missing_requests_and_limits_are_set():
    given = {"requests": {"cpu": "2"}, "limits": {"memory": "1Gi"}}
    pod = {"metadata": {}, "spec": {"containers": [{"name": "a", "resources": given}, {"name": "b"}]}}
    limits = [{"type": "Container", "defaultRequest": {"cpu": "1"}, "default": {"cpu": "3", "memory": "2Gi"}}]

    _fill(pod, limits, "example.com/limits")

    assert [container["resources"] for container in pod["spec"]["containers"]] == [
        {"requests": {"cpu": "2"}, "limits": {"cpu": "3", "memory": "1Gi"}},
        {"requests": {"cpu": "1"}, "limits": {"cpu": "3", "memory": "2Gi"}},
    ]
    assert pod["metadata"]["annotations"] == {
        "example.com/limits": "LimitRanger plugin set: cpu limit for container a; cpu request for container b; "
        "cpu, memory limit for container b"
    }

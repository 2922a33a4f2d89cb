"""Tests for the LimitRanger admission plugin."""

from __future__ import annotations

from apiserver_stub.admission.plugins.limit_ranger import _check_pod


def test_limit_request_ratio_is_enforced():
    container = {"name": "c", "resources": {"requests": {"cpu": "100m"}, "limits": {"cpu": "250m"}}}
    limits = [{"type": "Container", "maxLimitRequestRatio": {"cpu": "2"}, "min": {"cpu": "200m"}}]

    assert list(_check_pod({"containers": [container]}, limits)) == [
        "minimum cpu usage per Container is 200m, but request is 100m",
        "cpu max limit to request ratio per Container is 2, but provided ratio is 2.500000",
    ]

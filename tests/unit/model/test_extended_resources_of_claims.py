"""Tests for extended resources that resource claims provide."""

from __future__ import annotations

import msgspec

from nodeagent.model.extended_resources import provided_by_claims, requested_devices
from nodeagent.model.pod import PodStatus
from nodeagent.testing import make_container, make_pod

MAPPING = {"containerName": "main", "resourceName": "example.com/gpu", "requestName": "container-0-request-0"}


def test_resource_of_a_claim_is_left_out():
    container = make_container("main", resources={"limits": {"example.com/gpu": "1", "example.com/nic": "2"}})
    extended = {"resourceClaimName": "web-extended", "requestMappings": [MAPPING]}
    status = msgspec.convert({"extendedResourceClaimStatus": extended}, PodStatus)
    pod = make_pod("web", containers=[container], status=status)

    assert provided_by_claims(pod) == {"example.com/gpu"}
    assert requested_devices(container, pod) == {"example.com/nic": 2}
    assert requested_devices(container) == {"example.com/gpu": 1, "example.com/nic": 2}
    assert provided_by_claims(make_pod("other")) == frozenset()

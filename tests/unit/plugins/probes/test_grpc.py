"""Tests for the messages of failed gRPC probes."""

import pytest

from nodeagent_plugins.probes.grpc import _failure


@pytest.mark.parametrize(
    ("code", "text"),
    [
        (
            "UNIMPLEMENTED",
            "error: this server does not implement the grpc health protocol (grpc.health.v1.Health): details",
        ),
        ("DEADLINE_EXCEEDED", "timeout: health rpc did not complete within 1.5s"),
        ("UNAVAILABLE", "error: health rpc probe failed: UNAVAILABLE: details"),
    ],
)
def test_failure_has_the_wording_of_the_kubelet(code, text):
    assert _failure(code, "details", 1.5) == text

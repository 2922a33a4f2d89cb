"""Tests for the features that a pod requires of its node."""

from __future__ import annotations

from typing import Any

import pytest

from apiserver_stub.scheduling.required_features import required_features

_RESTARTS = {"restartPolicyRules": [{"action": "RestartAllContainers"}]}
_RESTART_FEATURE = "RestartAllContainersOnContainerExits"


@pytest.mark.parametrize(
    ("spec", "features"),
    [
        ({}, []),
        ({"containers": [{"restartPolicyRules": [{"action": "Restart"}]}]}, []),
        ({"containers": [_RESTARTS]}, [_RESTART_FEATURE]),
        ({"containers": [{}], "initContainers": [_RESTARTS]}, [_RESTART_FEATURE]),
        ({"hostNetwork": True}, []),
        ({"hostUsers": False}, []),
        ({"hostNetwork": True, "hostUsers": True}, []),
        ({"hostNetwork": True, "hostUsers": False}, ["UserNamespacesHostNetworkSupport"]),
    ],
)
def test_features_that_a_pod_requires(spec: dict[str, Any], features: list[str]) -> None:
    assert list(required_features(spec)) == features

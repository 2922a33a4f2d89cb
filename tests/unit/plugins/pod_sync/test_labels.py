"""Tests for the recorded hash of a container's spec."""

from __future__ import annotations

from nodeagent.testing import make_container
from nodeagent_plugins.pod_sync.labels import container_hash, matches_hash

LATER_FIELDS = {
    "env": [{"name": "A", "valueFrom": {"fileKeyRef": {"volumeName": "v", "path": "p", "key": "k"}}}],
    "volume_mounts": [{"name": "v", "mountPath": "/v", "recursiveReadOnly": "Enabled"}],
    "lifecycle": {"stopSignal": "SIGUSR1"},
    "security_context": {"appArmorProfile": {"type": "Unconfined"}},
    "restart_policy_rules": [{"action": "Restart"}],
}


def test_hash_of_the_same_spec_matches():
    container = make_container(**LATER_FIELDS)

    assert matches_hash(container, container_hash(container))


def test_container_of_an_agent_without_later_fields_matches():
    before = make_container(
        env=[{"name": "A", "valueFrom": {}}],
        volume_mounts=[{"name": "v", "mountPath": "/v"}],
        lifecycle={},
        security_context={},
    )

    assert matches_hash(make_container(**LATER_FIELDS), container_hash(before))


def test_hash_of_another_image_does_not_match():
    assert not matches_hash(make_container(image="b"), container_hash(make_container(image="a")))

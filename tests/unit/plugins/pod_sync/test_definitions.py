"""Tests for changes of container definitions, also of containers that earlier releases of the agent created."""

from __future__ import annotations

import msgspec
import pytest

from nodeagent.contracts.runtime import ANNOTATION_HASH, ContainerState, RuntimeContainerStatus
from nodeagent.model.pod import ResourceRequirements
from nodeagent.testing import make_container
from nodeagent_plugins.pod_sync.definitions import Definitions, container_hash, definition_changed
from nodeagent_plugins.pod_sync.labels import ANNOTATION_SANDBOX

LATER_FIELDS = {
    "env": [{"name": "A", "valueFrom": {"fileKeyRef": {"volumeName": "v", "path": "p", "key": "k"}}}],
    "volume_mounts": [{"name": "v", "mountPath": "/v", "recursiveReadOnly": "Enabled"}],
    "lifecycle": {"stopSignal": "SIGUSR1"},
    "security_context": {"appArmorProfile": {"type": "Unconfined"}},
    "restart_policy_rules": [{"action": "Restart"}],
}
LEGACY = "e554017e"
"""Hash of :func:`limited` as recorded by an earlier release of the agent."""


def limited(cpu="1", image="busybox"):
    container = make_container(image=image)
    return msgspec.structs.replace(container, resources=ResourceRequirements(limits={"cpu": cpu}))


def created(spec_hash):
    return RuntimeContainerStatus(
        id="c1",
        name="main",
        attempt=0,
        state=ContainerState.RUNNING,
        created_at=1,
        started_at=1,
        finished_at=0,
        exit_code=0,
        image="busybox",
        image_ref="sha256:1",
        annotations={ANNOTATION_HASH: spec_hash, ANNOTATION_SANDBOX: "s1"},
    )


def test_same_spec_is_not_changed():
    container = make_container(**LATER_FIELDS)

    assert not definition_changed(container, created(container_hash(container)))


def test_other_image_is_a_change():
    assert definition_changed(make_container(image="b"), created(container_hash(make_container(image="a"))))


@pytest.mark.parametrize("field", ["resources", "resize_policy"])
def test_resized_container_is_not_changed(field):
    values = {"resources": ResourceRequirements(limits={"cpu": "2"}), "resize_policy": [{"resourceName": "cpu"}]}
    container = make_container()
    resized = msgspec.structs.replace(container, **{field: values[field]})

    assert not definition_changed(resized, created(container_hash(container)))


def test_container_of_an_earlier_release_is_not_changed():
    assert not definition_changed(limited(), created(LEGACY))


def test_container_of_an_earlier_release_with_other_image_is_changed():
    assert definition_changed(limited(image="b"), created(LEGACY))


def test_later_fields_do_not_change_a_container_of_an_earlier_release():
    before = make_container(
        env=[{"name": "A", "valueFrom": {}}],
        volume_mounts=[{"name": "v", "mountPath": "/v"}],
        lifecycle={},
        security_context={},
    )

    assert not definition_changed(make_container(**LATER_FIELDS), created(legacy_hash(before)))


def test_resize_does_not_change_a_container_of_an_earlier_release():
    definitions = Definitions()
    assert not definitions.changed(limited(), created(LEGACY))

    assert not definitions.changed(limited(cpu="2"), created(LEGACY))
    assert not Definitions().changed(limited(cpu="2"), created(LEGACY), resizable=True)


def test_new_image_changes_a_resized_container_of_an_earlier_release():
    definitions = Definitions()
    assert not definitions.changed(limited(cpu="2"), created(LEGACY), resizable=True)

    assert definitions.changed(limited(cpu="2", image="b"), created(LEGACY), resizable=True)


def legacy_hash(container):
    import hashlib

    encoded = msgspec.json.Encoder(order="sorted").encode(container)
    return hashlib.blake2b(encoded, digest_size=4).hexdigest()

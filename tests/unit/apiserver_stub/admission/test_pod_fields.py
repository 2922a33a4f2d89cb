"""Tests for the references of pods to secrets, config maps and volumes."""

from __future__ import annotations

from typing import Any

import pytest

from apiserver_stub.admission.pod_fields import (
    config_map_names,
    containers,
    has_secrets,
    secret_names,
    volume_references,
)

KINDS = ("initContainers", "containers", "ephemeralContainers")


def volume(**source: Any) -> dict[str, Any]:
    return {"volumes": [{"name": "other", "emptyDir": {}}, {"name": "v", **source}]}


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({}, False),
        ({"containers": [{"name": "c"}]}, False),
        ({"imagePullSecrets": [{"name": "s"}]}, True),
        ({"imagePullSecrets": []}, False),
        (volume(secret={}), True),
        (volume(projected={"sources": [{"configMap": {}}, {"secret": {"name": "s"}}]}), True),
        (volume(projected={"sources": [{"configMap": {}}]}), False),
        *(
            (volume(**{name: {"secretRef": {"name": "s"}}}), True)
            for name in ("cephfs", "cinder", "flexVolume", "iscsi", "rbd", "scaleIO", "storageos")
        ),
        (volume(cephfs={"secretRef": {"name": ""}}), False),
        (volume(nfs={"secretRef": {"name": "s"}}), False),
        (volume(azureFile={"secretName": "s"}), True),
        (volume(azureFile={"shareName": "s"}), False),
        (volume(csi={"nodePublishSecretRef": {"name": "s"}}), True),
        (volume(csi={"driver": "d"}), False),
        ({"ephemeralContainers": [{"name": "c", "envFrom": [{"secretRef": {"name": "s"}}]}]}, True),
    ],
)
def test_secrets_of_pods_are_found(spec: dict[str, Any], *, expected: bool) -> None:
    assert has_secrets(spec) is expected


@pytest.mark.parametrize("kind", KINDS)
def test_environment_names_secrets_and_config_maps(kind: str) -> None:
    def variable(member: str, name: str) -> dict[str, Any]:
        return {"name": "A", "valueFrom": {member: {"name": name, "key": "k"}}}

    variables = [{"name": "B", "value": "x"}, variable("secretKeyRef", "s"), variable("configMapKeyRef", "m")]
    sources = [{"secretRef": {"name": "t"}}, {"configMapRef": {"name": "n"}}, {"secretRef": {"optional": True}}]
    container = {"name": "c", "env": variables, "envFrom": sources}
    spec = {kind: [{"name": "empty"}, container]}

    assert list(secret_names(spec)) == [(kind, container, "s"), (kind, container, "t"), (kind, container, "")]
    assert list(config_map_names(spec)) == [(kind, container, "m"), (kind, container, "n")]


def test_containers_are_listed_with_their_paths() -> None:
    spec = {kind: [{"name": kind}, None] for kind in reversed(KINDS)}

    assert list(containers(spec)) == [(f"spec.{kind}[0]", {"name": kind}) for kind in KINDS]
    assert [path for path, _ in containers(spec, "containers")] == ["spec.containers[0]"]


def test_volumes_refer_to_sources_directly_and_by_projection() -> None:
    sources = [{"configMap": {"name": "b"}}, {"secret": {}}]
    spec = {"volumes": [{"name": "a", "configMap": {}}, {"name": "b", "projected": {"sources": sources}}]}

    assert list(volume_references(spec, "configMap", "configMap")) == [{}, {"name": "b"}]

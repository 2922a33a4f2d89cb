"""Tests for the references of a pod."""

from __future__ import annotations

from nodeagent.testing import make_container, make_pod
from nodeagent_plugins.object_reader.references import references


def test_every_reference_is_found() -> None:
    init = make_container("init", env_from=[{"configMapRef": {"name": "cm-from"}}, {"secretRef": {"name": "s-from"}}])
    main = make_container(
        env=[
            {"name": "A", "value": "plain"},
            {"name": "B", "valueFrom": {"configMapKeyRef": {"name": "cm-env", "key": "k"}}},
            {"name": "C", "valueFrom": {"secretKeyRef": {"name": "s-env", "key": "k"}}},
            {"name": "D", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
        ]
    )
    pod = make_pod(
        init_containers=[init],
        containers=[main],
        image_pull_secrets=[{"name": "s-pull"}, {"name": ""}],
        volumes=[
            {"name": "a", "configMap": {"name": "cm-volume"}},
            {"name": "b", "secret": {"secretName": "s-volume"}},
            {"name": "c", "projected": {"sources": [
                {"configMap": {"name": "cm-projected"}}, {"secret": {"name": "s-projected"}},
                {"serviceAccountToken": {"path": "token"}},
            ]}},
            {"name": "d", "csi": {"nodePublishSecretRef": {"name": "s-csi"}}},
            {"name": "e", "flexVolume": {"secretRef": {"name": "s-flex"}}},
            {"name": "f", "emptyDir": {}},
            {"name": "g", "csi": {"driver": "x"}},
        ],
    )  # fmt: skip

    found = references(pod.spec)

    assert found.config_maps == {"cm-from", "cm-env", "cm-volume", "cm-projected"}
    assert found.secrets == {"s-from", "s-env", "s-pull", "s-volume", "s-projected", "s-csi", "s-flex"}


def test_plain_pod_has_no_references() -> None:
    found = references(make_pod().spec)

    assert not found.config_maps
    assert not found.secrets

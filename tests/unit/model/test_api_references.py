"""Tests for references of static pods to API objects."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest

from nodeagent.base.release import Release
from nodeagent.config.features import build_gates
from nodeagent.errors import ConfigError
from nodeagent.model.api_references import api_references
from nodeagent.model.pod import Pod
from nodeagent.testing import load_plugin, make_config, make_context
from nodeagent_plugins import pod_source_file, pod_source_http
from nodeagent_plugins.pod_source_http import read_pods

KEY = {"name": "a", "key": "k"}
SPEC: dict[str, Any] = {
    "serviceAccountName": "robot",
    "imagePullSecrets": [{"name": "registry"}],
    "resourceClaims": [{"name": "gpu", "resourceClaimName": "gpu"}],
    "initContainers": [{"name": "i", "env": [{"name": "A", "valueFrom": {"secretKeyRef": KEY}}]}],
    "containers": [
        {
            "name": "c",
            "env": [{"name": "A", "value": "1"}, {"name": "B", "valueFrom": {"configMapKeyRef": KEY}}],
            "envFrom": [{"secretRef": {"name": "a"}}, {"configMapRef": {"name": "a"}}],
        }
    ],
    "volumes": [
        {"name": "a", "configMap": {"name": "a"}},
        {"name": "b", "secret": {"secretName": "a"}},
        {"name": "c", "csi": {"driver": "d"}},
        {"name": "d", "persistentVolumeClaim": {"claimName": "a"}},
        {"name": "e", "ephemeral": {}},
        {"name": "f", "projected": {"sources": [{"downwardAPI": {}}, {"serviceAccountToken": {"path": "t"}}]}},
        {"name": "g", "emptyDir": {}},
        {"name": "h", "hostPath": {"path": "/"}},
        {"name": "i", "downwardAPI": {}},
    ],
}


def pod(spec: dict[str, Any]) -> Pod:
    return msgspec.convert({"metadata": {"name": "web"}, "spec": spec}, Pod)


def test_all_references_are_listed_with_their_objects() -> None:
    assert {path.removeprefix("spec."): objects for path, objects in api_references(pod(SPEC))} == {
        "serviceAccountName": "serviceaccounts",
        "imagePullSecrets[0]": "secrets",
        "resourceClaims": "resourceclaims",
        "initContainers[0].env[0].valueFrom.secretKeyRef": "secrets",
        "containers[0].env[1].valueFrom.configMapKeyRef": "configmaps",
        "containers[0].envFrom[0].secretRef": "secrets",
        "containers[0].envFrom[1].configMapRef": "configmaps",
        "volumes[0].configMap": "configmaps (via configmap volumes)",
        "volumes[1].secret": "secrets (via secret volumes)",
        "volumes[2].csi": "csidrivers (via CSI volumes)",
        "volumes[3].persistentVolumeClaim": "persistentvolumeclaims",
        "volumes[4].ephemeral": "persistentvolumeclaims (via ephemeral volumes)",
        "volumes[5].projected.sources[1].serviceAccountToken": "serviceaccounts (via projected volumes)",
    }


MANIFEST = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "web"},
    "spec": {"containers": [{"name": "c", "image": "a:1"}], "volumes": SPEC["volumes"][:1]},
}


def test_manifest_with_a_reference_is_rejected_with_its_field() -> None:
    body, now = msgspec.json.encode(MANIFEST), datetime(2024, 1, 1, tzinfo=UTC)

    assert read_pods(body, "http://url", "node-1", now)
    with pytest.raises(ConfigError) as raised:
        read_pods(body, "http://url", "node-1", now, references_allowed=False)

    text = (
        "spec.volumes[0].configMap: must not be set: static pods may not reference configmaps (via configmap volumes)"
    )
    assert text in str(raised.value)


@pytest.mark.parametrize(("release", "references_allowed"), [("1.33", True), ("1.34", False)])
@pytest.mark.parametrize("plugin", [pod_source_file, pod_source_http])
def test_static_pods_may_have_references_before_release_1_34(
    tmp_path: Path, plugin: object, release: str, references_allowed: bool
) -> None:
    config = make_config(static_pod_path=str(tmp_path), static_pod_url="http://config.test/pods")
    context = make_context(tmp_path, config=config, gates=build_gates({}, Release.parse(release)))

    (result,) = load_plugin(plugin).provide_all("nodeagent_provide_pod_sources", context=context)
    (source,) = result.value

    holder = source if plugin is pod_source_http else source._files
    assert holder._references_allowed is references_allowed
